"""`runai-adm`: nouns with list, get, create, update, delete; and the forms that older documents print."""

from __future__ import annotations

from collections.abc import Callable

import click

from fairpool.cli.runai.command_tree import Branch, Root, Twig

Commands = dict[str, click.Command]


def _projects() -> Commands:
    from fairpool.cli.adm import projects

    return {
        "list": projects.list_projects,
        "get": projects.get_project,
        "create": projects.create_project,
        "update": projects.update_project,
        "delete": projects.delete_project,
    }


def _departments() -> Commands:
    from fairpool.cli.adm import projects

    return {
        "list": projects.list_departments,
        "get": projects.get_department,
        "create": projects.create_department,
        "update": projects.update_department,
        "delete": projects.delete_department,
    }


def _pools() -> Commands:
    from fairpool.cli.adm import nodes

    return {
        "list": nodes.list_pools,
        "get": nodes.get_pool,
        "create": nodes.create_pool,
        "update": nodes.update_pool,
        "delete": nodes.delete_pool,
    }


def _nodes() -> Commands:
    from fairpool.cli.adm import nodes

    return {
        "list": nodes.list_nodes,
        "get": nodes.get_node,
        "create": nodes.refused_verb("create"),
        "update": nodes.update_node,
        "delete": nodes.refused_verb("delete"),
        "drain": nodes.drain,
        "undrain": nodes.undrain,
        "cordon": nodes.cordon,
        "uncordon": nodes.uncordon,
    }


def _users() -> Commands:
    from fairpool.cli.adm import users

    return {
        "list": users.list_users,
        "get": users.get_user,
        "create": users.create_user,
        "update": users.update_user,
        "delete": users.delete_user,
        "reset-password": users.reset_password,
    }


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
HIDDEN = {"create": "Not supported.", "delete": "Not supported."}


def _noun(
    name: str, text: str, load: Callable[[], Commands], example: str, verbs: dict[str, str], hidden: dict[str, str]
) -> Twig:
    def branch() -> click.Command:
        noun = name.replace("-", " ")
        twigs = {verb: Twig(words.format(noun=noun), lambda verb=verb: load()[verb]) for verb, words in verbs.items()}  # type: ignore[misc]
        twigs |= {verb: Twig(words, lambda verb=verb: load()[verb], hidden=True) for verb, words in hidden.items()}  # type: ignore[misc]
        return Branch(name, help=text, example=example, twigs=twigs)

    return Twig(text, branch)


def _role(verb: str) -> Callable[[], click.Command]:
    def load() -> click.Command:
        from fairpool.cli.adm.roles import node_role

        return node_role(verb)

    return load


def _unsupported(name: str) -> Twig:
    def load() -> click.Command:
        from fairpool.cli.runai.unsupported_commands import unsupported

        return unsupported("runai-adm", name)

    return Twig("Not supported yet.", load, hidden=True)


def _verb(verb: str, text: str) -> Twig:
    def branch() -> click.Command:
        twigs = {"node-role": Twig(text, _role(verb)), "secret": _unsupported("secret")}
        return Branch(verb, help=text, example=f"runai-adm {verb} node-role --gpu-worker dgx1-1", twigs=twigs)

    return Twig(text, branch)


def _completion() -> click.Command:
    from fairpool.cli.runai.completion import completion_for

    return completion_for("runai-adm")


def _version() -> click.Command:
    from fairpool.cli.runai.completion import version_of

    return version_of("runai-adm")


TWIGS = {
    "project": _noun(
        "project",
        "Manage projects and their quotas.",
        _projects,
        "runai-adm project create team-a --gpu-quota 4",
        VERBS,
        {},
    ),
    "department": _noun(
        "department", "Manage departments and their quotas.", _departments, "runai-adm department list", VERBS, {}
    ),
    "node-pool": _noun(
        "node-pool", "Manage node pools.", _pools, "runai-adm node-pool create a100 --label run.ai/type=a100", VERBS, {}
    ),
    "node": _noun(
        "node",
        "Manage nodes: labels, taints, drain and cordon.",
        _nodes,
        "runai-adm node drain dgx1-1",
        NODE_VERBS,
        HIDDEN,
    ),
    "user": _noun(
        "user",
        "Manage users and their projects.",
        _users,
        "runai-adm user create ann@example.com --project team-a",
        {**VERBS, "reset-password": "Reset the password of a user."},
        {},
    ),
    "set": _verb("set", "Set the role of a node."),
    "remove": _verb("remove", "Remove a role from a node."),
    "completion": Twig("Print the completion script for bash, zsh or fish.", _completion),
    "version": Twig("Print the version.", _version),
    **{name: _unsupported(name) for name in ("generate-values", "collect-logs", "update")},
}

main = Root(
    "runai-adm",
    help="Manage projects, departments, nodes and users. Sign in with `runai login`.",
    example="runai-adm project create team-a --gpu-quota 4",
    twigs=TWIGS,
    with_project=False,
)


if __name__ == "__main__":
    main(prog_name="runai-adm")
