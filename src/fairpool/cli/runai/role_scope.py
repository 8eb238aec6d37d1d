"""A role with the scope in which it applies, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairpool.api.access import AccessRule


def role_in_scope(rule: AccessRule) -> str:
    """`viewer in project team-a`; a role for the whole system by its name alone."""
    return rule.role if rule.scope_type == "tenant" else f"{rule.role} in {rule.scope_type} {rule.scope_name}"
