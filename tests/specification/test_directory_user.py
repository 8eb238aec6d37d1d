"""Which numbers of a directory pods may run with."""

from __future__ import annotations

import os
import pwd
from types import SimpleNamespace
from typing import Any

import pytest

from fairpool.agent import isolation
from fairpool.agent.isolation import PodUser, pod_user
from fairpool.control.directory_user import accepted_identity, may_act_as
from fairpool.control.plane import Caller
from fairpool.control.provider_identity import DEFAULTS, UnixIdentity, identity_of
from fairpool.model.container_rules import process_objection
from fairpool.model.ids import PROJECT_UIDS
from fairpool.model.problem import Problem
from fairpool.model.spec import Program, SecurityContext

LEAST = 1000
ANN = UnixIdentity(4711, 4712, (5000, 5001))


@pytest.mark.parametrize(
    "said",
    [[ANN], [UnixIdentity(), ANN], [ANN, ANN], [UnixIdentity(LEAST, LEAST)]],
    ids=["one", "some", "same", "least"],
)
def test_the_numbers_of_a_person_are_accepted(said: list[UnixIdentity]) -> None:
    assert accepted_identity(said, LEAST) == said[-1]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "numeric user ID"),
        ([UnixIdentity()], "numeric user ID"),
        ([UnixIdentity(gid=4712)], "numeric user ID"),
        ([UnixIdentity(uid=4711)], "numeric group ID"),
        ([ANN, UnixIdentity(4712, 4712)], "different numeric IDs"),
        ([UnixIdentity(0, 4712)], "the ID 0"),
        ([UnixIdentity(4711, 0)], "the ID 0"),
        ([UnixIdentity(4711, 4712, (0,))], "the ID 0"),
        ([UnixIdentity(999, 4712)], "the ID 999"),
        ([UnixIdentity(4711, 4712, (5000, 6))], "the ID 6"),
        ([UnixIdentity(PROJECT_UIDS[0], 4712)], "the ID 2000000000"),
        ([UnixIdentity(4711, PROJECT_UIDS[-1])], "the ID 2000065535"),
    ],
)
def test_no_other_numbers_are_accepted(said: list[UnixIdentity], why: str) -> None:
    found = accepted_identity(said, LEAST)
    assert isinstance(found, Problem)
    assert why in found.what


def test_a_renewal_keeps_the_numbers_that_it_does_not_mention() -> None:
    mappers = DEFAULTS["oidc"]

    def numbers(known: UnixIdentity | None = None, **said: object) -> UnixIdentity:
        found = identity_of("1", {"email": "ann@example.com", **said}, mappers, known=known)
        assert not isinstance(found, Problem)
        return found.unix

    assert numbers(ANN) == ANN
    assert numbers(ANN, UID=7, SUPPLEMENTARYGROUPS=[]) == UnixIdentity(7, 4712, ())
    assert numbers() == UnixIdentity(), "a sign-in says everything"


def test_root_is_refused_whatever_the_setting_says() -> None:
    assert isinstance(accepted_identity([UnixIdentity(0, 0)], 0), Problem)


@pytest.mark.parametrize(
    ("kind", "name", "is_allowed"),
    [("user", "ann@example.com", True), ("user", "bob@example.com", False), ("app", "ann@example.com", False)],
)
def test_only_the_submitter_acts_in_pods_with_their_numbers(kind: str, name: str, is_allowed: bool) -> None:
    caller = Caller(id="1", name=name, kind=kind)
    assert may_act_as(caller, "ann@example.com") is is_allowed
    assert may_act_as(caller, None), "other pods are open to each user with the permission"


@pytest.mark.parametrize(
    ("asked", "can_choose_user", "why"),
    [
        ({"uid": 4711, "gid": 4712}, True, ""),
        ({"uid": 4711, "gid": 4712}, False, "processes run as the user of the server"),
        ({"uid": 0, "gid": 4712}, True, "no user that a pod can run as"),
        ({"uid": 4711}, True, "no user that a pod can run as"),
        ({"uid": 4711, "gid": 4712, "groups": (0,)}, True, "no user that a pod can run as"),
    ],
)
def test_processes_run_so_where_the_server_can_choose_their_user(
    asked: dict[str, Any], can_choose_user: bool, why: str
) -> None:
    program = Program(security=SecurityContext(directory_user=True, **asked))
    found = process_objection(program, can_choose_user=can_choose_user)
    assert (found is None) == (why == "")
    assert found is None or why in found.what
    assert process_objection(Program(), can_choose_user=False) is None


def test_an_account_that_was_not_found_once_is_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[int, str] = {}
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name=found[uid]))
    isolation._own_name.cache_clear()
    for uid in (4711, os.geteuid()):
        assert isolation.user_name(uid) == "pod"
        found[uid] = f"user-{uid}"
        assert isolation.user_name(uid) == f"user-{uid}"
    isolation._own_name.cache_clear()


def test_a_pod_of_a_person_has_the_group_of_its_project_too() -> None:
    project = PodUser(PROJECT_UIDS[0], PROJECT_UIDS[0])
    found = pod_user(SecurityContext(uid=4711, gid=4712, groups=(5000,), directory_user=True), project)
    assert (found.uid, found.gid, found.groups) == (4711, 4712, (5000, PROJECT_UIDS[0]))
    assert pod_user(SecurityContext(), project) == project
    assert pod_user(SecurityContext(uid=0, gid=4712, directory_user=True), project) == project, "which is refused"
