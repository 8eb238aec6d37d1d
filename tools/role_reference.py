"""`python -m tools.role_reference`: writes the page about roles from the tables in the code."""

from __future__ import annotations

from pathlib import Path

from fairpool.api.roles import RESOURCES, Verb
from fairpool.control.builtin_roles import BUILT_IN, BuiltInRole

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
LETTERS = {Verb.CREATE: "c", Verb.READ: "r", Verb.UPDATE: "u", Verb.DELETE: "d"}
SHORT = {
    "administrator": "SA",
    "department-administrator": "DA",
    "department-viewer": "DV",
    "editor": "Ed",
    "research-manager": "RM",
    "researcher": "Re",
    "l1-researcher": "L1",
    "l2-researcher": "L2",
    "ml-engineer": "ML",
    "viewer": "Vi",
    "compute-resource-administrator": "CA",
    "environment-administrator": "EA",
    "data-source-administrator": "SO",
    "credentials-administrator": "CR",
    "template-administrator": "TA",
}

ROLES_PAGE = """# Roles

Written by `python -m tools.role_reference` from `control/builtin_roles.py` and `control/rbac.py`.

A role is a set of permissions: create, read, update, delete, for each type of resource. An *access rule* gives a role
to a user, a group of the identity provider, an application or a service account, in a project, a department, a cluster,
or the whole tenant. Permissions add up. What a caller may not read is in no list, count, search, stream or message.

```console
$ runai-adm role list
$ runai-adm role get l1-researcher
$ runai-adm access-rule create --group ml-team --role l1-researcher --project team-a
$ runai-adm role create "Template editor" --permission templates:read,update
$ runai-adm user update ann@example.com --disable
```

- To assign or take away a role, a caller needs the permission to manage access rules in that scope, and everything that
  the role permits there. So a department administrator cannot make a system administrator.
- A custom role cannot permit more than its creator may do. Built-in roles cannot be changed, and a role that a rule
  assigns cannot be deleted. A change of a role holds at once.
- Groups come from the identity provider when a user signs in or a token is renewed. Rules of a group hold at once.
- A disabled or deleted user is signed out at once: tokens, streams and shells end. One system administrator with a
  password of this installation always remains.
- `runai whoami` shows one's own roles, and with `--permissions` the names of one's permissions; so do `GET /api/v1/me`
  and `GET /api/v1/authorization/permissions`.
- A credential can be changed by its owner as long as the owner may create credentials; update and delete in the grid
  mean those of others.

[Which route needs what](permissions.md) is a page of its own.

## Built-in roles

| id | name in commands | short | what it is for |
|---|---|---|---|
"""

GRID_INTRO = """
`admin`, `system-administrator`, `department-admin`, `researcher-l1` and `researcher-l2` are accepted too. `researcher`
is the role that members of a project had before there were levels.

## The grid

c create, r read, u update, d delete. Permissions to change departments, clusters, nodes, node pools, settings, users,
applications and custom roles, and to read the audit log, hold only in rules for the whole tenant.

"""


def pages() -> dict[Path, str]:
    """The page as it should be."""
    return {FOLDER / "roles.md": _roles()}


def _roles() -> str:
    lines = [f"| {role.id} | `{role.key}` | {SHORT[role.key]} | {role.description} |" for role in BUILT_IN.values()]
    return ROLES_PAGE + "\n".join(lines) + "\n" + GRID_INTRO + _grid()


def _grid() -> str:
    head = f"| resource | {' | '.join(SHORT[key] for key in BUILT_IN)} |\n|---|{'---|' * len(BUILT_IN)}\n"
    rows = (
        f"| {resource.value} | {' | '.join(_letters(role, resource) for role in BUILT_IN.values())} |"
        for resource in RESOURCES
    )
    return head + "\n".join(rows) + "\n"


def _letters(role: BuiltInRole, resource: object) -> str:
    held = {cell.verb for cell in role.cells if cell.resource == resource}
    return "".join(LETTERS[verb] for verb in Verb if verb in held) or "-"


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
