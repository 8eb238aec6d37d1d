"""Names of roles. A module of its own, because commands load it."""

from __future__ import annotations

from enum import StrEnum


class RoleName(StrEnum):
    """A role that can be assigned in a scope."""

    ADMINISTRATOR = "administrator"
    RESEARCHER = "researcher"
