"""An API server with OIDC flags accepts the tokens of a control plane: users, groups, and access by namespace."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairpool.api.calls import Refused
from fairpool.api.client import Client
from fairpool.api.organization import ProjectRequest
from tests.kubernetes import control_plane as parts
from tests.kubernetes.api_calls import ApiCalls, ApiError
from tests.kubernetes.certificates import Authority
from tests.kubernetes.control_plane import ControlPlane
from tests.monitoring import until
from tests.needs import kubernetes_program
from tests.two_programs import ControlProcess, control_at

pytestmark = pytest.mark.slow

USER, PASSWORD, GROUP = "ann@example.com", "correct horse", "ml-engineers"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True)
class Signed:
    """A Kubernetes cluster whose API server trusts a control plane, and tokens of a user."""

    control: str
    authority: Path
    cluster: ControlPlane
    access_token: str
    token: str
    """For this API server."""
    other_token: str
    """For that of another cluster."""

    @property
    def calls(self) -> ApiCalls:
        return ApiCalls(self.cluster.address, self.cluster.ca, self.token)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signed]:
    folder = tmp_path_factory.mktemp("oidc")
    authority = Authority(folder / "tls")
    certificate, key = authority.sign("fairpool", user="fairpool", hosts=("127.0.0.1", "localhost"))
    with (
        pytest.MonkeyPatch.context() as patch,
        control_at(folder, "--tls-cert", str(certificate), "--tls-key", str(key)) as control,
    ):
        patch.setenv("SSL_CERT_FILE", str(authority.certificate))  # for the client in this test, as for `runai`
        for name in ("east", "west"):
            control.token_file(name)
        east, west = (each.uuid for each in sorted(control.administrator().clusters(), key=lambda each: each.name))
        project = {"name": "team-a", "clusterId": "east", "resources": [{"gpu": {"deserved": 4}}]}
        control.administrator().create_project(ProjectRequest.model_validate(project))
        user = Client(control.address, access_token_of_user(control))
        tokens = [user.kubernetes_token(each).token for each in (east, west)]
        flags = (
            f"--oidc-issuer-url={control.address}",
            f"--oidc-ca-file={authority.certificate}",
            f"--oidc-client-id=fairpool-kubernetes:{east}",
            "--oidc-username-claim=email",
            "--oidc-username-prefix=-",
            "--oidc-groups-claim=groups",
            "--oidc-signing-algs=ES256",
        )
        with parts.control_plane(folder / "kubernetes", api_server_flags=flags) as cluster:
            yield Signed(control.address, authority.certificate, cluster, user.token or "", *tokens)


def access_token_of_user(control: ControlProcess) -> str:
    """Of a user with a group of an identity provider, as `runai login` gets it."""
    control.administrator().create_user({"email": USER, "password": PASSWORD, "needToChangePassword": False})
    rule = {"subjectId": USER, "roleId": "researcher", "scopeType": "project", "scopeId": "team-a"}
    control.administrator().create_access_rule(rule)
    with closing(sqlite3.connect(control.data_directory.control)) as database, database:
        find = "SELECT id FROM users WHERE email = ?"
        database.execute(f"INSERT INTO user_groups (user_id, group_name) SELECT ({find}), ?", (USER, GROUP))
    return Client(control.address).sign_in(USER, PASSWORD).access_token


def review(calls: ApiCalls) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return dict(calls.create(REVIEW, body)["status"]["userInfo"])


def is_known(calls: ApiCalls) -> bool:
    """The API server reads the keys of the issuer after its start."""
    try:
        review(calls)
    except ApiError as error:
        if error.status != 401:
            raise
        return False
    return True


def test_the_api_server_knows_the_user_and_the_groups_of_a_token(signed: Signed) -> None:
    """F-217."""
    until(lambda: is_known(signed.calls), "the token is accepted")
    found = review(signed.calls)
    assert found["username"] == USER
    assert set(found["groups"]) == {GROUP, "system:authenticated"}
    altered = signed.token[:-8] + ("A" * 8)
    for token in (altered, signed.other_token, signed.access_token):
        with pytest.raises(ApiError, match="401"):
            review(ApiCalls(signed.cluster.address, signed.cluster.ca, token))


def test_a_token_for_an_api_server_opens_nothing_else(signed: Signed) -> None:
    """The administrator of a cluster, who sees it, can do nothing with it at the control plane, and not for long."""
    with pytest.raises(Refused) as error:
        Client(signed.control, signed.token).me()
    assert error.value.status == 401
    payload = signed.token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert (claims["email"], claims["groups"]) == (USER, [GROUP])
    assert claims["exp"] - claims["iat"] <= 600


def test_a_kubeconfig_without_the_administrator_reaches_only_namespaces_of_own_projects(
    signed: Signed, tmp_path: Path
) -> None:
    """F-215, F-218, F-133: after `runai login` kubectl works with `runai-authenticated-user` alone."""
    admin = signed.cluster.admin
    until(lambda: is_known(signed.calls), "the token is accepted")
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    admin.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "viewer"}, "rules": [rule]})
    for project in ("team-a", "team-b"):
        admin.create("/api/v1/namespaces", {"metadata": {"name": f"runai-{project}"}})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "viewer"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": GROUP}],
    }
    admin.create(f"/apis/{group}/v1/namespaces/runai-team-a/rolebindings", binding)
    researcher = Researcher(signed, tmp_path)
    login = ("login", "--server", signed.control, "--user", USER, "--password-stdin")
    assert researcher.types("runai", *login, text=PASSWORD).returncode == 0
    reach = ("--api-server", signed.cluster.address, "--ca-file", str(signed.cluster.ca))
    assert "there are several clusters" in researcher.types("runai", "kubeconfig", "set", *reach).stderr
    set_up = researcher.types("runai", "kubeconfig", "set", *reach, "--cluster", "east")
    assert set_up.returncode == 0, set_up.stderr
    written = yaml.safe_load(researcher.kubeconfig.read_text(encoding="utf-8"))
    assert [each["name"] for each in written["users"]] == ["runai-authenticated-user"]
    assert signed.token not in researcher.kubeconfig.read_text(encoding="utf-8")
    kubectl = kubernetes_program("kubectl")
    assert "No resources found" in researcher.types(kubectl, "get", "pods", "--namespace=runai-team-a").stderr
    refused = researcher.types(kubectl, "get", "pods", "--namespace=runai-team-b")
    assert refused.returncode != 0
    assert f'User "{USER}" cannot list resource "pods"' in refused.stderr


def test_a_kubeconfig_keeps_what_else_is_in_it(signed: Signed, tmp_path: Path) -> None:
    """F-133: the cluster is that of the current context."""
    until(lambda: is_known(signed.calls), "tokens are accepted")
    researcher = Researcher(signed, tmp_path)
    assert "names no API server" in researcher.types("runai", "kubeconfig", "set").stderr
    researcher.kubeconfig.write_text(signed.cluster.kubeconfig(folder=tmp_path).read_text(encoding="utf-8"))
    login = ("login", "--server", signed.control, "--user", USER, "--password-stdin")
    researcher.types("runai", *login, text=PASSWORD)
    assert "there is no cluster" in researcher.types("runai", "kubeconfig", "set", "--cluster", "north").stderr
    assert researcher.types("runai", "kubeconfig", "set", "--cluster", "east").returncode == 0
    written = yaml.safe_load(researcher.kubeconfig.read_text(encoding="utf-8"))
    assert [each["name"] for each in written["users"]] == ["admin", "runai-authenticated-user"]
    assert written["current-context"] == "runai"
    assert written["contexts"][-1]["context"]["cluster"] == "tests"
    assert researcher.kubeconfig.stat().st_mode & 0o777 == 0o600
    credential = json.loads(researcher.types("runai", "kubeconfig", "token", "--cluster", "east").stdout)
    assert credential["kind"] == "ExecCredential"
    assert credential["status"]["expirationTimestamp"].endswith("Z")
    own = ApiCalls(signed.cluster.address, signed.cluster.ca, credential["status"]["token"])
    assert review(own)["username"] == USER


@dataclass(frozen=True)
class Researcher:
    """A person with a kubeconfig of their own."""

    signed: Signed
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "config"

    def types(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("FAIRPOOL_")}
        own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
        own |= {"KUBECONFIG": str(self.kubeconfig), "FAIRPOOL_CONFIG": str(self.folder / "runai")}
        own |= {"HOME": str(self.folder), "SSL_CERT_FILE": str(self.signed.authority)}
        return subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=False, env=own)
