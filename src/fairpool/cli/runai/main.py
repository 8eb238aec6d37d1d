"""`runai`: the command with its subcommands, each imported only when it is called."""

from __future__ import annotations

import click

from fairpool.cli.lazy_group import LazyCommand, lazy
from fairpool.cli.runai.flags import Group, RunaiProgram

ASSETS = {"environment": "environment", "compute": "compute resource", "datasource": "data source"}
"""Kinds of assets beside templates, and how people call them."""


def _refused(name: str) -> LazyCommand:
    return lazy("Not supported.", "fairpool.cli.runai.refused_commands:refused_command", "runai", name, hidden=True)


def _kind(name: str, text: str, *, hidden: bool = False) -> LazyCommand:
    """`runai training` and the like, imported when it is called."""

    def load() -> click.Command:
        from fairpool.cli.runai.workload_groups import kind_group

        return kind_group(name).load()

    return LazyCommand(text, load, hidden)


def _only_list(name: str, text: str, place: str) -> LazyCommand:
    """`runai node list`: the newer order of words for `runai list nodes`."""
    members = {"list": lazy(text, place)}
    return LazyCommand(text, lambda: Group(name, help=text, example=f"runai {name} list", members=members), hidden=True)


def _assets(verb: str) -> dict[str, LazyCommand]:
    """`list environments`, `describe environment`, and so on."""
    place = f"fairpool.cli.runai.assets:{verb}_command"
    found = {}
    for kind, noun in ASSETS.items():
        name = noun.replace(" ", "-") + "s" * (verb == "list")
        text = f"List {noun}s." if verb == "list" else f"Show one {noun}."
        found[name] = lazy(text, place, kind)
    return found


def _list() -> click.Command:
    return Group(
        "list",
        help="List jobs (the default), projects, nodes, clusters, volume claims, templates or credentials.",
        example="runai list jobs -p team-a",
        members={
            "jobs": lazy("List jobs of one project or of all projects.", "fairpool.cli.runai.jobs:list_jobs"),
            "projects": lazy("List projects with their quotas.", "fairpool.cli.runai.projects:list_projects"),
            "nodes": lazy("List nodes with their GPUs.", "fairpool.cli.runai.nodes:list_nodes"),
            "clusters": lazy("List clusters and the default project.", "fairpool.cli.runai.nodes:list_clusters"),
            "pvc": lazy("List the volume claims of a project.", "fairpool.cli.runai.claims:list_claims"),
            "templates": lazy("List workload templates.", "fairpool.cli.runai.templates:list_templates"),
            "credentials": lazy(
                "List credentials that jobs can refer to.", "fairpool.cli.runai.credentials:list_credentials"
            ),
            **_assets("list"),
        },
        aliases={
            **{f"{name.replace(' ', '-')}": f"{name.replace(' ', '-')}s" for name in ASSETS.values()},
            "credential": "credentials",
            "job": "jobs",
            "project": "projects",
            "node": "nodes",
            "cluster": "clusters",
            "pvcs": "pvc",
            "template": "templates",
        },
        default="jobs",
    )


def _describe() -> click.Command:
    return Group(
        "describe",
        help="Show a job, project, node or template in detail.",
        example="runai describe job hyper1 -p team-a",
        members={
            "job": lazy("Show a job with its pods, mounts and events.", "fairpool.cli.runai.details:describe_job"),
            "project": lazy(
                "Show a project with its quota, usage and rules.", "fairpool.cli.runai.projects:describe_project"
            ),
            "node": lazy("Show a node with its GPUs and pods.", "fairpool.cli.runai.nodes:describe_node"),
            "template": lazy("Show a workload template.", "fairpool.cli.runai.templates:describe_template"),
            **_assets("describe"),
        },
        aliases={"jobs": "job", "projects": "project", "nodes": "node", "templates": "template"},
        likely="job",
    )


def _config() -> click.Command:
    return Group(
        "config",
        help="Set the default project or cluster.",
        example="runai config project team-a",
        members={
            "project": lazy("Set the default project.", "fairpool.cli.runai.projects:config_project"),
            "cluster": lazy("Set the cluster for new projects.", "fairpool.cli.runai.nodes:config_cluster"),
        },
    )


def _context() -> click.Command:
    return Group(
        "context",
        help="Name the control planes that you use, and switch between them.",
        example="runai context set east --server https://east.example.com --use",
        members={
            "list": lazy("List contexts; the default.", "fairpool.cli.runai.contexts:list_contexts"),
            "use": lazy("Switch to a context.", "fairpool.cli.runai.contexts:use_context"),
            "set": lazy("Add or change a context.", "fairpool.cli.runai.contexts:set_context"),
            "delete": lazy("Delete contexts.", "fairpool.cli.runai.contexts:delete_contexts"),
        },
        default="list",
    )


def _notifications() -> click.Command:
    place = "fairpool.cli.runai.notifications"
    return Group(
        "notifications",
        help="Be notified of events of your jobs, by mail or webhook.",
        example="runai notifications subscribe finished failed",
        members={
            "list": lazy("List your subscriptions.", f"{place}:list_subscriptions"),
            "subscribe": lazy("Be notified of events of your jobs.", f"{place}:subscribe"),
            "unsubscribe": lazy("Delete a subscription.", f"{place}:unsubscribe"),
            "log": lazy("List what was sent, or waits to be sent.", f"{place}:delivery_log"),
            "webhooks": lazy("List your webhooks.", f"{place}:list_webhooks"),
            "add-webhook": lazy("Add a webhook.", f"{place}:add_webhook"),
            "delete-webhook": lazy("Delete a webhook.", f"{place}:delete_webhook"),
        },
        default="list",
    )


def _project() -> click.Command:
    return Group(
        "project",
        help="Old name of `runai config project` and `runai list projects`.",
        example="runai project set team-a",
        members={
            "set": lazy("Set the default project.", "fairpool.cli.runai.projects:config_project"),
            "list": lazy("List projects with their quotas.", "fairpool.cli.runai.projects:list_projects"),
        },
    )


def _cluster() -> click.Command:
    return Group(
        "cluster",
        help="Old name of `runai config cluster` and `runai list clusters`.",
        example="runai cluster set local",
        members={
            "set": lazy("Set the cluster for new projects.", "fairpool.cli.runai.nodes:config_cluster"),
            "list": lazy("List clusters and the default project.", "fairpool.cli.runai.nodes:list_clusters"),
        },
    )


def _template() -> click.Command:
    return Group(
        "template",
        help="Old name of `runai list templates` and `runai describe template`.",
        example="runai template list",
        members={
            "list": lazy("List workload templates.", "fairpool.cli.runai.templates:list_templates"),
            "get": lazy("Show a workload template.", "fairpool.cli.runai.templates:describe_template"),
        },
    )


def _policy() -> click.Command:
    return Group(
        "policy",
        help="Show what policies say about jobs.",
        example="runai policy show -p team-a",
        members={"show": lazy("Show defaults and rules for jobs.", "fairpool.cli.runai.policies:show_policy")},
        default="show",
    )


def _pvc() -> click.Command:
    place = "fairpool.cli.runai.claims"
    return Group(
        "pvc",
        help="List and delete the volume claims of a project.",
        example="runai pvc delete data -p team-a",
        members={
            "list": lazy("List the volume claims of a project.", f"{place}:list_claims"),
            "delete": lazy("Delete volume claims with their data.", f"{place}:delete_claims"),
        },
        default="list",
    )


def _config_map() -> click.Command:
    place = "fairpool.cli.runai.config_maps"
    return Group(
        "configmap",
        help="Manage the config maps of a project: small files and values for jobs.",
        example="runai configmap create settings --from-file train.yaml",
        members={
            "list": lazy("List the config maps of a project.", f"{place}:list_config_maps"),
            "describe": lazy("Show a config map with its contents.", f"{place}:describe_config_map"),
            "create": lazy("Create a config map.", f"{place}:create_config_map"),
            "update": lazy("Replace the contents of a config map.", f"{place}:update_config_map"),
            "delete": lazy("Delete config maps.", f"{place}:delete_config_maps"),
        },
        default="list",
    )


def _top() -> click.Command:
    return Group(
        "top",
        help="Show current usage by node, project and job.",
        example="runai top --watch",
        members={
            "overview": lazy(
                "Show nodes, projects and running jobs (the default).", "fairpool.cli.runai.top:top_overview"
            ),
            "job": lazy("Show running jobs and their resources.", "fairpool.cli.runai.top:top_job"),
            "node": lazy("Show nodes and how much of each is allocated.", "fairpool.cli.runai.top:top_node"),
        },
        aliases={"jobs": "job", "nodes": "node"},
        default="overview",
    )


def _auth() -> click.Command:
    return Group(
        "auth",
        help="Tokens for other programs.",
        example="runai auth token",
        members={"token": lazy("Print an access token for the API.", "fairpool.cli.runai.login:auth_token")},
    )


def _kubeconfig() -> click.Command:
    place = "fairpool.cli.runai.kubeconfig"
    return Group(
        "kubeconfig",
        help="Use kubectl with your login.",
        example="runai kubeconfig set",
        members={
            "set": lazy("Add your login to your kubeconfig.", f"{place}:set_kubeconfig"),
            "token": lazy("Print the credential that kubectl asks for.", f"{place}:kubeconfig_token"),
        },
    )


def _sessions() -> click.Command:
    place = "fairpool.cli.runai.sessions"
    return Group(
        "sessions",
        help="List and end your sessions.",
        example="runai sessions end --others",
        members={
            "list": lazy("List where you are signed in; the default.", f"{place}:list_sessions"),
            "end": lazy("End sessions.", f"{place}:end_sessions"),
        },
        default="list",
    )


def _access_key() -> click.Command:
    place = "fairpool.cli.runai.access_keys"
    return Group(
        "access-key",
        help="Manage access keys, with which programs sign in as you.",
        example="runai access-key create ci --expires 90d --project team-a",
        members={
            "list": lazy("List your access keys; the default.", f"{place}:list_keys"),
            "create": lazy("Create an access key.", f"{place}:create_key"),
            "secret": lazy("Make a new secret for an access key.", f"{place}:secret_key"),
            "delete": lazy("Delete access keys.", f"{place}:delete_keys"),
        },
        default="list",
    )


FRAMEWORKS = ("pytorch", "mpi", "tensorflow", "xgboost")
REFUSED = ("upgrade", "report")
COMPLETION = "fairpool.cli.runai.completion:completion_for"
MEMBERS = {
    "submit": lazy("Submit a job.", "fairpool.cli.runai.submit:submit"),
    "submit-dist": lazy("Submit distributed training.", "fairpool.cli.runai.distributed:submit_dist"),
    "submit-mpi": lazy("Submit MPI training.", "fairpool.cli.runai.distributed:submit_mpi", hidden=True),
    "mj": lazy("Old name of submit-mpi.", "fairpool.cli.runai.distributed:submit_mpi", hidden=True),
    "list": LazyCommand("List jobs, projects, nodes, clusters, volume claims, templates or credentials.", _list),
    "describe": LazyCommand("Show a job, project, node or template in detail.", _describe),
    "logs": lazy("Show a job's output.", "fairpool.cli.runai.logs:logs"),
    "wait": lazy("Wait until jobs finish, run or are deleted.", "fairpool.cli.runai.wait:wait"),
    "cp": lazy("Copy files into or out of a running job.", "fairpool.cli.runai.copying:cp"),
    "bash": lazy("Open a shell in a job.", "fairpool.cli.runai.shells:bash"),
    "exec": lazy("Run a command in a job.", "fairpool.cli.runai.shells:exec_command"),
    "attach": lazy("Attach to a job's main process.", "fairpool.cli.runai.shells:attach"),
    "port-forward": lazy("Forward local ports to a job.", "fairpool.cli.runai.port_forward:port_forward"),
    "suspend": lazy("Stop jobs so that they can be resumed.", "fairpool.cli.runai.operations:suspend"),
    "resume": lazy("Queue suspended jobs again.", "fairpool.cli.runai.operations:resume"),
    "update": lazy("Change a job.", "fairpool.cli.runai.job_update:update_command", "runai update"),
    "delete": lazy("Stop and delete jobs.", "fairpool.cli.runai.operations:delete"),
    "why": lazy("Explain why a job is waiting, stopped or failed.", "fairpool.cli.runai.reasons:why"),
    "history": lazy("Show every try of a job's pods.", "fairpool.cli.runai.reasons:history"),
    "workspace": _kind("workspace", "Submit and manage interactive jobs only."),
    "training": _kind("training", "Submit and manage training only."),
    "inference": _kind("inference", "Submit and manage model servers only."),
    "workload": _kind("workload", "Manage jobs of every kind."),
    "top": LazyCommand("Show current GPU usage; --watch refreshes it.", _top),
    "config": LazyCommand("Set the default project or cluster.", _config),
    "context": LazyCommand("Switch between several control planes.", _context),
    "notifications": LazyCommand("Be notified of events of your jobs.", _notifications),
    "login": lazy("Sign in.", "fairpool.cli.runai.login:login"),
    "logout": lazy("Sign out.", "fairpool.cli.runai.login:logout"),
    "whoami": lazy("Show who is signed in.", "fairpool.cli.runai.login:whoami"),
    "auth": LazyCommand("Print a token for other programs.", _auth),
    "kubeconfig": LazyCommand("Use kubectl with your login.", _kubeconfig),
    "sessions": LazyCommand("List and end your sessions.", _sessions),
    "access-key": LazyCommand("Manage keys for programs that sign in as you.", _access_key),
    "password": lazy("Change your password.", "fairpool.cli.runai.login:password"),
    "completion": lazy("Print the completion script for bash, zsh or fish.", COMPLETION, "runai"),
    "version": lazy("Print the version.", "fairpool.cli.runai.completion:version_command", "runai"),
    "get": lazy("Old name of describe job.", "fairpool.cli.runai.details:get", hidden=True),
    "project": LazyCommand("Old name of config project.", _project, hidden=True),
    "cluster": LazyCommand("Old name of config cluster.", _cluster, hidden=True),
    **{name: _kind(name, "Short for `runai training`.", hidden=True) for name in FRAMEWORKS},
    "node": _only_list("node", "List nodes with their GPUs.", "fairpool.cli.runai.nodes:list_nodes"),
    "nodepool": _only_list("nodepool", "List node pools.", "fairpool.cli.adm.node_pools:list_pools"),
    "policy": LazyCommand("Show the defaults and limits that hold for jobs.", _policy),
    "pvc": LazyCommand("List and delete volume claims.", _pvc),
    "configmap": LazyCommand("Manage config maps: small files for jobs.", _config_map),
    **{name: _refused(name) for name in REFUSED},
    "template": LazyCommand("Old name of list templates.", _template, hidden=True),
}

main = RunaiProgram(
    "runai",
    help="Submit and manage jobs on shared GPUs.",
    example="runai submit hello -i python -g 0.5 -- python -c 'print(1)'",
    members=MEMBERS,
)


if __name__ == "__main__":
    main(prog_name="runai")
