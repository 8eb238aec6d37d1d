"""Who may do what: the table of roles, read aloud."""

from __future__ import annotations

import pytest

from fairpool.api.access import ScopeType
from fairpool.control.app import ROUTES
from fairpool.control.builtin_roles import BUILT_IN
from fairpool.control.rbac import EVERYTHING, Action, Grant, Scope, allowed, allowed_somewhere

ADMIN = BUILT_IN["administrator"].grant(ScopeType.TENANT)
ANN = BUILT_IN["researcher"].grant(ScopeType.PROJECT, "team-a")
HEAD = BUILT_IN["researcher"].grant(ScopeType.DEPARTMENT, "research")
PROJECT_ADMINISTRATOR = BUILT_IN["administrator"].grant(ScopeType.PROJECT, "team-a")


@pytest.mark.parametrize(
    ("grant", "action", "scope", "may"),
    [
        pytest.param(ADMIN, Action.ACCESS_WRITE, Scope(), True, id="an administrator makes users"),
        pytest.param(ADMIN, Action.LINK, Scope(), False, id="only a cluster speaks for a cluster"),
        pytest.param(ANN, Action.WORKLOAD_SUBMIT, Scope("team-a"), True, id="a researcher submits to their project"),
        pytest.param(ANN, Action.WORKLOAD_SUBMIT, Scope("team-b"), False, id="and to no other"),
        pytest.param(ANN, Action.WORKLOAD_SUBMIT, Scope(), False, id="nor to none"),
        pytest.param(ANN, Action.PROJECT_WRITE, Scope("team-a"), False, id="a researcher sets no quota"),
        pytest.param(ANN, Action.NODE_READ, Scope(), True, id="nodes are no project's secret"),
        pytest.param(ANN, Action.AUDIT_READ, Scope(), False, id="the audit log is an administrator's"),
        pytest.param(HEAD, Action.WORKLOAD_READ, Scope("p", "research"), True, id="a department covers its projects"),
        pytest.param(HEAD, Action.WORKLOAD_READ, Scope("p", "sales"), False, id="and no other's"),
        pytest.param(
            PROJECT_ADMINISTRATOR, Action.PROJECT_WRITE, Scope("team-a"), True, id="a project can have an administrator"
        ),
        pytest.param(PROJECT_ADMINISTRATOR, Action.ACCESS_WRITE, Scope(), False, id="who administers nothing else"),
    ],
)
def test_allowed(grant: Grant, action: Action, scope: Scope, may: bool) -> None:
    assert allowed([grant], action, scope) is may


def test_no_user_may_do_anything_without_a_grant() -> None:
    assert not any(allowed([], action) or allowed_somewhere([], action) for action in EVERYTHING | {Action.LINK})


def test_only_signing_in_health_and_documentation_are_open() -> None:
    opened = {each.path for each in ROUTES if each.action is Action.OPEN and not each.path.endswith("/token")}
    documentation = {"/docs", "/api/docs", "/api/openapi.json", "/researcher/api/docs"}
    keys = {each for each in opened if each.endswith(("/openid-configuration", "/certs", "/jwks.json"))}
    pages = {"/sign-in", "/sign-out", "/sign-in/command", "/device", "/forgot-password", "/reset-password"}
    pages |= {f"/sign-in/with/{{idp}}{page}" for page in ("", "/callback", "/logout", "/acs", "/metadata")}
    commands = {"/api/v1/sign-in/device", "/api/v1/sign-in/ways", "/v1/k8s/auth/oauth/apptoken"}
    commands |= {"/api/v1/password/forgot", "/api/v1/password/reset"}
    program = {"/api/v1/command-package", "/download/{name}", "/download/fairpool.whl"}  # open source, nothing of ours
    assert opened - keys == {"/", "/healthz", "/readyz", "/open", *pages, *commands, *documentation, *program}


def test_an_administrator_has_every_permission_there_is() -> None:
    assert all(allowed([ADMIN], action) for action in EVERYTHING)
