"""`runai-adm`: nouns with list, get, create, update, delete; and the forms that older documents print."""

from __future__ import annotations

import click

from fairpool.cli.lazy_group import LazyCommand, lazy
from fairpool.cli.runai.flags import Group, RunaiProgram
from fairpool.model.spelling import plural

TEXTS = {
    "list": "List {plural}.",
    "get": "Show a {noun}.",
    "create": "Create a {noun}.",
    "update": "Change a {noun}.",
    "delete": "Delete a {noun}.",
    "drain": "Drain a node for maintenance.",
    "undrain": "Return a drained node to service.",
    "cordon": "Stop scheduling new pods on a node.",
    "uncordon": "Schedule pods on a cordoned node again.",
    "token": "Make a new token for a {noun}.",
    "secret": "Make a new secret for a {noun}.",
    "reset-password": "Reset the password of a user.",
}
COMPLETION = "fairpool.cli.runai.completion:completion_for"


def _noun(name: str, text: str, example: str, verbs: dict[str, LazyCommand]) -> LazyCommand:
    return LazyCommand(text, lambda: Group(name, help=text, example=example, members=verbs))


def _verbs(noun: str, module: str, functions: str) -> dict[str, LazyCommand]:
    """`list_pools get_pool`: each function is the command of its first word."""
    found = {}
    for function in functions.split():
        verb = "reset-password" if function == "reset_password" else function.partition("_")[0]
        text = TEXTS[verb].format(noun=noun, plural=plural(noun))
        found[verb] = lazy(text.replace(" a a", " an a").replace(" a i", " an i"), f"{module}:{function}")
    return found


NODE_VERBS = {
    **_verbs("node", "fairpool.cli.adm.nodes", "list_nodes get_node update_node drain undrain cordon uncordon"),
    "update": lazy("Change the labels and taints of a node.", "fairpool.cli.adm.nodes:update_node"),
    **{
        verb: lazy("Not supported.", "fairpool.cli.adm.nodes:refused_verb", verb, hidden=True)
        for verb in ("create", "delete")
    },
}


def _refused(name: str, row: str = "") -> LazyCommand:
    place = "fairpool.cli.runai.refused_commands:refused_command"
    return lazy("Not supported.", place, "runai-adm", name, row, hidden=True)


def _verb(verb: str, text: str) -> LazyCommand:
    def group() -> click.Command:
        role = lazy(text, "fairpool.cli.adm.roles:node_role", verb)
        about = "Let all projects use a credential." if verb == "set" else "Restrict a credential to its scope again."
        credential = lazy(about, "fairpool.cli.adm.credentials:cluster_wide", verb, about)
        members = {"node-role": role, "secret": credential}
        return Group(verb, help=text, example=f"runai-adm {verb} node-role --gpu-worker dgx1-1", members=members)

    return LazyCommand(text, group)


ASSETS = {
    "environment": ("environment", "-i python -e EPOCHS=3"),
    "compute": ("compute resource", "-g 0.5 --cpu 4"),
    "datasource": ("data source", "-v /raid/data:/data:ro"),
}


def _asset(kind: str, noun: str, values: str) -> LazyCommand:
    place = "fairpool.cli.adm.assets"
    article = "an" if noun[0] in "aeiou" else "a"
    verbs = {
        verb: lazy(
            TEXTS[verb].format(noun=noun, plural=plural(noun)).replace(" a ", f" {article} "),
            f"{place}:{verb}_of",
            kind,
        )
        for verb in ("list", "get", "create", "update", "delete")
    }
    return _noun(kind, f"Manage {noun}s for submits.", f"runai-adm {kind} create NAME {values}", verbs)


MEMBERS = {
    "project": _noun(
        "project",
        "Manage projects and their quotas.",
        "runai-adm project create team-a --gpu-quota 4",
        _verbs(
            "project",
            "fairpool.cli.adm.projects",
            "list_projects get_project create_project update_project delete_project",
        ),
    ),
    "department": _noun(
        "department",
        "Manage departments and their quotas.",
        "runai-adm department list",
        _verbs(
            "department",
            "fairpool.cli.adm.departments",
            "list_departments get_department create_department update_department delete_department",
        ),
    ),
    "node-pool": _noun(
        "node-pool",
        "Manage node pools.",
        "runai-adm node-pool create a100 --label run.ai/type=a100",
        _verbs("node pool", "fairpool.cli.adm.node_pools", "list_pools get_pool create_pool update_pool delete_pool"),
    ),
    "node-type": _noun(
        "node-type",
        "Manage node types.",
        "runai-adm node-type set dgx-2 node-1",
        {
            "list": lazy("List node types.", "fairpool.cli.adm.node_types:list_types"),
            "set": lazy("Set the type of nodes.", "fairpool.cli.adm.node_types:set_type"),
            "remove": lazy("Remove the type of nodes.", "fairpool.cli.adm.node_types:remove_type"),
        },
    ),
    "topology": _noun(
        "topology",
        "Manage network topologies.",
        "runai-adm topology create fabric --level example.com/zone --level example.com/rack",
        _verbs(
            "topology", "fairpool.cli.adm.topologies", "list_topologies get_topology create_topology delete_topology"
        ),
    ),
    "cluster": _noun(
        "cluster",
        "Manage clusters and their tokens.",
        "runai-adm cluster create east --token-file east.token",
        {
            **_verbs(
                "cluster",
                "fairpool.cli.adm.clusters",
                "list_clusters get_cluster create_cluster update_cluster token_cluster delete_cluster",
            ),
            "create": lazy("Add a cluster, and get its token.", "fairpool.cli.adm.clusters:create_cluster"),
            "delete": lazy("Remove a cluster that has no projects.", "fairpool.cli.adm.clusters:delete_cluster"),
        },
    ),
    "node": _noun("node", "Manage nodes: labels, taints, drain and cordon.", "runai-adm node drain dgx1-1", NODE_VERBS),
    "user": _noun(
        "user",
        "Manage users and their projects.",
        "runai-adm user create ann@example.com --project team-a",
        _verbs(
            "user", "fairpool.cli.adm.users", "list_users get_user create_user update_user delete_user reset_password"
        ),
    ),
    "role": _noun(
        "role",
        "Manage roles: built-in ones and your own.",
        "runai-adm role list",
        _verbs("role", "fairpool.cli.adm.role_commands", "list_roles get_role create_role update_role delete_role"),
    ),
    "access-rule": _noun(
        "access-rule",
        "Manage access rules: who has which role where.",
        "runai-adm access-rule list",
        _verbs("access rule", "fairpool.cli.adm.access_rules", "list_rules get_rule create_rule delete_rule"),
    ),
    "application": _noun(
        "application",
        "Manage applications: accounts for programs.",
        "runai-adm application create nightly-sweep --project team-a",
        _verbs(
            "application",
            "fairpool.cli.adm.applications",
            "list_applications get_application create_application update_application secret_application "
            "delete_application",
        ),
    ),
    "service-account": _noun(
        "service-account",
        "Manage service accounts: accounts for programs.",
        "runai-adm service-account create nightly-sweep --project team-a",
        _verbs(
            "service account",
            "fairpool.cli.adm.program_accounts",
            "list_accounts get_account create_account update_account secret_account delete_account",
        ),
    ),
    "session": _noun(
        "session",
        "List and end sessions of all users and programs.",
        "runai-adm session list",
        {
            "list": lazy(
                "List the sessions of all users and programs.", "fairpool.cli.runai.sessions:list_all_sessions"
            ),
            "end": lazy("End sessions.", "fairpool.cli.runai.sessions:end_any_sessions"),
        },
    ),
    "token-key": _noun(
        "token-key",
        "Manage the keys that access tokens are signed with.",
        "runai-adm token-key rotate",
        {
            "list": lazy("List the keys.", "fairpool.cli.adm.token_keys:list_keys"),
            "rotate": lazy("Sign tokens with a new key.", "fairpool.cli.adm.token_keys:rotate_keys"),
        },
    ),
    "mail": _noun(
        "mail",
        "Manage the mail server that messages are sent through.",
        "runai-adm mail test ann@example.com",
        {
            "get": lazy("Show the mail server.", "fairpool.cli.adm.mail:get_mail"),
            "update": lazy("Set or change the mail server.", "fairpool.cli.adm.mail:update_mail"),
            "test": lazy("Send a test message.", "fairpool.cli.adm.mail:test_mail"),
            "delete": lazy("Remove the mail server.", "fairpool.cli.adm.mail:delete_mail"),
        },
    ),
    "identity-provider": _noun(
        "identity-provider",
        "Manage identity providers for single sign-on (OIDC, SAML).",
        "runai-adm identity-provider list",
        {
            **_verbs(
                "identity provider",
                "fairpool.cli.adm.identity_providers",
                "list_providers get_provider create_provider update_provider delete_provider",
            ),
            "create": lazy("Connect an identity provider.", "fairpool.cli.adm.identity_providers:create_provider"),
            "test": lazy("Check an identity provider.", "fairpool.cli.adm.identity_providers:test_provider"),
            "link": lazy(
                "Let an account sign in as an existing user.", "fairpool.cli.adm.identity_providers:link_account"
            ),
            "unlink": lazy(
                "Separate a user from their account at a provider.",
                "fairpool.cli.adm.identity_providers:unlink_account",
            ),
        },
    ),
    "pvc": _noun(
        "pvc",
        "List and delete volume claims of all projects.",
        "runai-adm pvc list",
        {
            "list": lazy("List the volume claims of all projects.", "fairpool.cli.adm.claims:list_all_claims"),
            "delete": lazy("Delete volume claims with their data.", "fairpool.cli.adm.claims:delete_any_claims"),
        },
    ),
    "setting": _noun(
        "setting",
        "Show and change settings of the control plane.",
        "runai-adm setting list",
        {
            **_verbs("setting", "fairpool.cli.adm.settings", "list_settings get_setting update_setting"),
            **{
                verb: lazy("Not supported.", "fairpool.cli.adm.settings:refused_setting_verb", verb, hidden=True)
                for verb in ("create", "delete")
            },
        },
    ),
    "template": _noun(
        "template",
        "Manage workload templates.",
        "runai-adm template create batch_ops -i python -g 0.5",
        _verbs(
            "template",
            "fairpool.cli.adm.templates",
            "list_templates get_template create_template update_template delete_template",
        ),
    ),
    "policy": _noun(
        "policy",
        "Manage policies: defaults and limits for jobs.",
        "runai-adm policy apply -f gpus.yaml --kind training",
        {
            **_verbs("policy", "fairpool.cli.adm.policies", "list_policies get_policy delete_policy"),
            "apply": lazy("Create or replace policies from a file.", "fairpool.cli.adm.policies:apply_policy"),
        },
    ),
    "credential": _noun(
        "credential",
        "Manage credentials: secrets that pods refer to.",
        "runai-adm credential create hf-token -p team-a --from-file token=hf.txt",
        _verbs(
            "credential",
            "fairpool.cli.adm.credentials",
            "list_credentials get_credential create_credential update_credential delete_credential",
        ),
    ),
    **{kind: _asset(kind, noun, values) for kind, (noun, values) in ASSETS.items()},
    "set": _verb("set", "Set the role of a node, or let all projects use a credential."),
    "remove": _verb("remove", "Remove a role from a node, or a credential from all projects."),
    "decisions": lazy("List what the scheduler decided, newest first.", "fairpool.cli.adm.decisions:list_decisions"),
    "shares": lazy(
        "List quota, fair share and lending of projects and departments.", "fairpool.cli.adm.shares:list_shares"
    ),
    "audit": _noun(
        "audit",
        "List, export and verify the audit log.",
        "runai-adm audit verify",
        {
            "list": lazy("List the audit log, newest first.", "fairpool.cli.adm.audit:list_audit"),
            "get": lazy("Show one entry with what it changed.", "fairpool.cli.adm.audit:get_audit"),
            "export": lazy("Print the whole log as CSV or JSON lines.", "fairpool.cli.adm.audit:export_audit"),
            "verify": lazy("Check that no entry was changed or removed.", "fairpool.cli.adm.audit:verify_audit"),
        },
    ),
    "report": lazy("Show GPU hours and costs of a period.", "fairpool.cli.adm.usage_report:report"),
    "price": _noun(
        "price",
        "Manage the prices of GPUs, CPU cores and memory.",
        "runai-adm price set gpu 2.50",
        {
            "list": lazy("List prices.", "fairpool.cli.adm.prices:list_prices"),
            "set": lazy("Set a price.", "fairpool.cli.adm.prices:set_price"),
            "delete": lazy("Delete a price.", "fairpool.cli.adm.prices:delete_price"),
        },
    ),
    "collect-logs": lazy("Collect logs and state in an archive.", "fairpool.cli.adm.log_archive:collect_logs"),
    "completion": lazy("Print the completion script for bash, zsh or fish.", COMPLETION, "runai-adm"),
    "version": lazy("Print the version.", "fairpool.cli.runai.completion:version_command", "runai-adm"),
    "generate-values": _refused("generate-values"),
    "update": _refused("update", "upgrade"),
}

PLURALS = (
    *(
        "project",
        "department",
        "node-pool",
        "node-type",
        "cluster",
        "node",
        "user",
        "setting",
        "template",
        "environment",
    ),
    *("datasource", "credential", "identity-provider", "price"),
)

main = RunaiProgram(
    "runai-adm",
    help="Manage projects, departments, nodes and users. Sign in with `runai login`.",
    example="runai-adm project create team-a --gpu-quota 4",
    members=MEMBERS,
    aliases={
        **{f"{noun}s": noun for noun in PLURALS},
        "applications": "application",
        "service-accounts": "service-account",
        "sessions": "session",
        "token-keys": "token-key",
        "topologies": "topology",
        "policies": "policy",
        "app": "application",
        "apps": "application",
        "data-source": "datasource",
        "data-sources": "datasource",
        "compute-resource": "compute",
        "compute-resources": "compute",
    },
    with_project=False,
)


if __name__ == "__main__":
    main(prog_name="runai-adm")
