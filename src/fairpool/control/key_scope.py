"""What an access key may be used for: its owner's grants, cut down to the key's scope. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from fairpool.api.access import ScopeType
from fairpool.control.rbac import TOGETHER, Action, Grant, Scope


def restricted(
    grants: Iterable[Grant], actions: Collection[str] | None, projects: Collection[Scope] | None
) -> tuple[Grant, ...]:
    """Grants of the owner as the key has them: none that the owner lacks now. None: not restricted.

    `projects`: those that the key is for, each with its department and cluster. A role above them becomes one in each.
    """
    allowed = None if actions is None else frozenset(_single(actions))
    cut = [grant if allowed is None else replace(grant, actions=grant.actions & allowed) for grant in grants]
    if projects is None:
        return tuple(cut)
    return tuple(
        replace(grant, scope_type=ScopeType.PROJECT, scope_id=place.project)
        for grant in cut
        for place in projects
        if _includes(grant, place)
    )


def _single(actions: Collection[str]) -> Iterable[Action]:
    """Actions, those that stand for several as what they stand for. A name that no longer exists permits nothing."""
    known = [Action(each) for each in actions if each in list(Action)]
    return (single for action in known for single in TOGETHER.get(action, (action,)))


def _includes(grant: Grant, place: Scope) -> bool:
    match grant.scope_type:
        case ScopeType.TENANT:
            return True
        case ScopeType.CLUSTER:
            return grant.scope_id == place.cluster
        case ScopeType.DEPARTMENT:
            return grant.scope_id == place.department
        case ScopeType.PROJECT:
            return grant.scope_id == place.project
