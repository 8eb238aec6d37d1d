"""Pods that run with the uid, gid and groups of the directory: which numbers a submitter has, and which are accepted.

They are what the identity provider said when the submitter last signed in or renewed a token. They become part of the
workload when it is submitted, so that a pod keeps its user while the directory changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairpool.api.pod_spec import Security
from fairpool.api.problems import ProblemItem, problem_item
from fairpool.api.workload_spec import SubmitAny
from fairpool.control.plane import Caller, Plane
from fairpool.control.pod_template import FROM_THE_DIRECTORY
from fairpool.control.preferences import DIRECTORY_ID_MIN, current_value
from fairpool.control.provider_identity import UnixIdentity
from fairpool.control.refusal import Refused
from fairpool.control.store import identity_providers as store
from fairpool.control.store.database import Connection
from fairpool.control.unsupported import CUSTOM
from fairpool.control.workload_documents import directory_user_of
from fairpool.model.ids import PROJECT_UIDS
from fairpool.model.problem import Problem
from fairpool.model.spec import PodTemplate, WorkloadSpec

FIELD = "spec.security.uidGidSource"
_NO_UID = "no identity provider has given you a numeric user ID"
_MAP = "ask your administrator to map uid and gid at the identity provider, sign in again, or use custom"


def with_directory_user(
    plane: Plane, connection: Connection, caller: Caller, spec: WorkloadSpec, submitted_by: str | None = None
) -> WorkloadSpec | list[ProblemItem]:
    """The workload with the numbers of its submitter, if it asks for them; else as it is.

    Another user may not change such a workload: it would then do what they say with the rights of the submitter.
    """
    if not any(each.program.security.directory_user for each in _templates(spec)):
        return spec
    if not may_act_as(caller, submitted_by):
        return [_reserved(submitted_by)]
    found = accepted_identity(
        _identities(connection, caller), current_value(plane.settings, connection, DIRECTORY_ID_MIN)
    )
    if isinstance(found, Problem):
        return [problem_item(found, FIELD)]
    leader = _running_as(spec.leader, found) if spec.leader is not None else None
    return replace(spec, template=_running_as(spec.template, found), leader=leader)


def as_submitter(connection: Connection, caller: Caller, asked: SubmitAny) -> SubmitAny:
    """The request with what its `runAsUser` means for this caller; see `user_of_submitter`."""
    security = user_of_submitter(connection, caller, asked.spec.security)
    if security is asked.spec.security:
        return asked
    return asked.model_copy(update={"spec": asked.spec.model_copy(update={"security": security})})


def user_of_submitter(connection: Connection, caller: Caller, asked: Security) -> Security:
    """`runAsUser` alone asks for the user of the submitter: that of the directory, if a provider gives the caller one,
    else the one that the request names, which is the user who typed the command. It is said before policies are
    checked, so that they judge the user that pods really have."""
    if not asked.run_as_user or asked.uid_gid_source is not None:
        return asked
    said = asked.model_dump(by_alias=True, exclude_unset=True)
    if any(each.uid is not None for each in _identities(connection, caller)):
        said = {name: value for name, value in said.items() if name not in ("runAsUid", "runAsGid")}
        return Security.model_validate(said | {"uidGidSource": FROM_THE_DIRECTORY})
    if asked.run_as_uid is None:
        fix = "ask your administrator to map uid and gid at the identity provider, or set runAsUid and runAsGid"
        problem = Problem("security.no_directory_user", _NO_UID, fix)
        raise Refused(422, [problem_item(problem, "spec.security.runAsUser")])
    return Security.model_validate(said | {"uidGidSource": CUSTOM})


def _identities(connection: Connection, caller: Caller) -> list[UnixIdentity]:
    """What the providers of a caller say."""
    return [UnixIdentity.from_text(each) for each in store.unix_identities(connection, caller.id)]


def may_act_as(caller: Caller, directory_user: str | None) -> bool:
    """Whether a caller may change, or act in, pods with the numbers of this user; None: not those of a directory."""
    return directory_user is None or (caller.kind == "user" and caller.name == directory_user)


def require_own_if_directory_user(caller: Caller, row: Any) -> None:
    """Refuse all but the submitter of a workload that runs with the numbers of a directory.

    A permission in the project is not enough: its files on a file server are those of one person.
    """
    whose = directory_user_of(row)
    if not may_act_as(caller, whose):
        raise Refused(403, [_reserved(whose)], is_denial=True)


def _reserved(directory_user: str | None) -> ProblemItem:
    what = f"it runs with the uid and gid of {directory_user}, so that only they can change it or enter its pods"
    return problem_item(Problem("security.directory_user", what, "submit it again as yourself"), FIELD)


def accepted_identity(said: Sequence[UnixIdentity], least: int) -> UnixIdentity | Problem:
    """The numbers that pods may run with, of those that the providers of a user say."""
    known = list(dict.fromkeys(each for each in said if each.uid is not None))
    if not known:
        return Problem("security.no_directory_user", _NO_UID, _MAP)
    if len(known) > 1:
        what = "your accounts at two identity providers have different numeric IDs"
        return Problem("security.no_directory_user", what, "ask your administrator, or use custom")
    found = known[0]
    if found.gid is None:
        return Problem("security.no_directory_user", "no identity provider has given you a numeric group ID", _MAP)
    wrong = [each for each in (found.uid, found.gid, *found.groups) if not _is_allowed(each, least)]
    if wrong:
        what = f"the identity provider gives you the ID {wrong[0]}, which pods may not have"
        fix = f"ask your administrator; the lowest one is {least} (setting {DIRECTORY_ID_MIN})"
        return Problem("security.directory_id", what, fix)
    return found


def _is_allowed(number: int | None, least: int) -> bool:
    """Neither root or a user of the system, nor the user of a project."""
    return number is not None and number >= max(1, least) and number not in PROJECT_UIDS


def _templates(spec: WorkloadSpec) -> list[PodTemplate]:
    return [each for each in (spec.template, spec.leader) if each is not None]


def _running_as(template: PodTemplate, found: UnixIdentity) -> PodTemplate:
    security = replace(template.program.security, uid=found.uid, gid=found.gid, groups=found.groups)
    return replace(template, program=replace(template.program, security=security))
