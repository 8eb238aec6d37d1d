"""`runai-adm`: nouns with list, get, create, update, delete; and the forms that older documents print."""

from __future__ import annotations

import click

from fairpool.cli.lazy_group import LazyCommand, lazy
from fairpool.cli.runai.flags import Group, RunaiProgram

VERBS = {
    "list": "List {noun}s.",
    "get": "Show a {noun}.",
    "create": "Create a {noun}.",
    "update": "Change a {noun}.",
    "delete": "Delete a {noun}.",
}
NODE_VERBS = {
    "list": "List nodes.",
    "get": "Show a node.",
    "update": "Change the labels and taints of a node.",
    "drain": "Drain a node for maintenance.",
    "undrain": "Return a drained node to service.",
    "cordon": "Stop scheduling new pods on a node.",
    "uncordon": "Schedule pods on a cordoned node again.",
}
COMPLETION = "fairpool.cli.runai.completion:completion_for"
REFUSED = ("create", "delete")


def _noun(name: str, text: str, module: str, example: str, verbs: dict[str, str]) -> LazyCommand:
    """`list`, `get` and so on of one noun: each is the function VERB_NOUN of the module, or a verb of its own."""

    def group() -> click.Command:
        noun = name.replace("-", " ")
        members = {
            verb: lazy(words.format(noun=noun), f"{module}:{_function(verb, name)}") for verb, words in verbs.items()
        }
        if name == "node":
            members |= {verb: lazy("Not supported.", f"{module}:refused_verb", verb, hidden=True) for verb in REFUSED}
        return Group(name, help=text, example=example, members=members)

    return LazyCommand(text, group)


def _function(verb: str, name: str) -> str:
    if verb not in VERBS:
        return verb.replace("-", "_")
    noun = name.rpartition("-")[2]
    return f"{verb}_{noun}s" if verb == "list" else f"{verb}_{noun}"


def _unsupported(name: str) -> LazyCommand:
    place = "fairpool.cli.runai.unsupported_commands:unsupported"
    return lazy("Not supported yet.", place, "runai-adm", name, hidden=True)


def _verb(verb: str, text: str) -> LazyCommand:
    def group() -> click.Command:
        role = lazy(text, "fairpool.cli.adm.roles:node_role", verb)
        members = {"node-role": role, "secret": _unsupported("secret")}
        return Group(verb, help=text, example=f"runai-adm {verb} node-role --gpu-worker dgx1-1", members=members)

    return LazyCommand(text, group)


MEMBERS = {
    "project": _noun(
        "project",
        "Manage projects and their quotas.",
        "fairpool.cli.adm.projects",
        "runai-adm project create team-a --gpu-quota 4",
        VERBS,
    ),
    "department": _noun(
        "department",
        "Manage departments and their quotas.",
        "fairpool.cli.adm.departments",
        "runai-adm department list",
        VERBS,
    ),
    "node-pool": _noun(
        "node-pool",
        "Manage node pools.",
        "fairpool.cli.adm.node_pools",
        "runai-adm node-pool create a100 --label run.ai/type=a100",
        VERBS,
    ),
    "node": _noun(
        "node",
        "Manage nodes: labels, taints, drain and cordon.",
        "fairpool.cli.adm.nodes",
        "runai-adm node drain dgx1-1",
        NODE_VERBS,
    ),
    "user": _noun(
        "user",
        "Manage users and their projects.",
        "fairpool.cli.adm.users",
        "runai-adm user create ann@example.com --project team-a",
        {**VERBS, "reset-password": "Reset the password of a user."},
    ),
    "set": _verb("set", "Set the role of a node."),
    "remove": _verb("remove", "Remove a role from a node."),
    "completion": lazy("Print the completion script for bash, zsh or fish.", COMPLETION, "runai-adm"),
    "version": lazy("Print the version.", "fairpool.cli.runai.completion:version_of", "runai-adm"),
    **{name: _unsupported(name) for name in ("generate-values", "collect-logs", "update")},
}

main = RunaiProgram(
    "runai-adm",
    help="Manage projects, departments, nodes and users. Sign in with `runai login`.",
    example="runai-adm project create team-a --gpu-quota 4",
    members=MEMBERS,
    with_project=False,
)


if __name__ == "__main__":
    main(prog_name="runai-adm")
