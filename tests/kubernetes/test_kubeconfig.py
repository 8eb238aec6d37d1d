"""Which API server a kubeconfig file means, how its user authenticates, and what is said about broken files."""

from __future__ import annotations

import base64
import json
import os
import ssl
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fairpool.engines.kubernetes import credentials as credentials_module
from fairpool.engines.kubernetes import exec_plugin
from fairpool.engines.kubernetes.credentials import Access, ApiServer, Credentials, in_cluster
from fairpool.engines.kubernetes.failures import BadConfiguration
from fairpool.engines.kubernetes.kubeconfig import find_api_server, read_kubeconfig
from tests.kubernetes.certificates import Authority

SERVER = "https://cluster.example:6443"


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(path: Path, *, cluster: Any = None, user: Any = None, **more: Any) -> Path:
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": SERVER} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
        "current-context": "x",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**content, **more}))
    return path


def access(server: ApiServer) -> Access:
    return server.credentials.read()


def headers(server: ApiServer) -> dict[str, str]:
    return dict(access(server).headers)


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


# --- which file, which context ----------------------------------------------------------------------------------------


def test_the_given_file_comes_before_the_variable_and_that_before_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "home/.kube/config", user={"token": "home"})
    assert headers(find_api_server()) == {"Authorization": "Bearer home"}
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "variable", user={"token": "variable"})))
    assert headers(find_api_server()) == {"Authorization": "Bearer variable"}
    given = write(tmp_path / "given", user={"token": "given"})
    found = find_api_server(str(given))
    assert headers(found) == {"Authorization": "Bearer given"}
    assert (found.url, found.namespace) == (SERVER, "team-a")


def test_several_files_are_merged_and_the_first_value_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"clusters": [], "contexts": [{"name": "y", "context": {"cluster": "c", "user": "u"}}]}
    first = write(tmp_path / "a/first", user={"tokenFile": "token"}, **own, **{"current-context": "y"})
    (tmp_path / "a/token").write_text("of-the-first\n")
    second = write(tmp_path / "b/second", user={"token": "of-the-second"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{first}::{second}")
    found = find_api_server()
    assert (found.url, found.namespace) == (SERVER, "default")
    assert headers(found) == {"Authorization": "Bearer of-the-first"}, "a path is relative to the file it is in"
    assert find_api_server(context="x").namespace == "team-a"


def test_without_any_configuration_it_says_what_to_do() -> None:
    with pytest.raises(BadConfiguration, match=r"set KUBECONFIG, create ~/\.kube/config, or run as a pod"):
        find_api_server()


def test_files_that_do_not_exist_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    with pytest.raises(BadConfiguration, match=f"KUBECONFIG names no file that exists: {tmp_path}/a:{tmp_path}/b"):
        find_api_server()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"current-context": ""}, r"no context is chosen \(current-context\)"),
        ({"current-context": "z"}, "there is no context 'z'; there are: x"),
        ({"clusters": None}, "there is no cluster 'c'; there are: none"),
        ({"users": [{"name": "v", "user": {}}]}, "there is no user 'u'; there are: v"),
        ({"contexts": {"x": 1}}, r"is not a kubeconfig: Expected `array \| null`, got `object` - at `\$.contexts`"),
        ({"clusters": [{"cluster": {}}]}, "is not a kubeconfig: .*missing required field `name`"),
        ({"cluster": {"server": 7}}, "is not a kubeconfig: Expected `str`, got `int`"),
        (
            {"cluster": {"server": "cluster.example:6443"}},
            "cluster 'c': the server is not an address: 'cluster.example",
        ),
        ({"cluster": {"server": "https://a:99999"}}, "the server is not an address"),
        ({"cluster": {"server": ""}}, "the server is not an address"),
        ({"cluster": {"proxy-url": "http://p:1"}}, "cluster 'c': proxy-url is not supported"),
        (
            {"cluster": {"insecure-skip-tls-verify": True, "certificate-authority": "ca"}},
            "insecure-skip-tls-verify cannot be combined",
        ),
        ({"cluster": {"certificate-authority-data": "%%%"}}, "certificate-authority-data is not base64"),
        ({"user": {"client-key-data": "bm90aGluZw=="}}, "client-key-data is not in the PEM format"),
        ({"user": {"username": "u", "password": "p"}}, "username and password are not supported"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "user 'u': auth-provider is not supported"),
        ({"user": {"exec": {"command": "p", "apiVersion": "v1alpha1"}}}, "apiVersion 'v1alpha1' is not supported"),
        ({"user": {"exec": {"apiVersion": exec_plugin.VERSIONS[0]}}}, "has no command"),
        (
            {"user": {"exec": {"command": "p", "apiVersion": exec_plugin.VERSIONS[0], "interactiveMode": "Always"}}},
            "asks for a terminal",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_file(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "config", **more)
    with pytest.raises(BadConfiguration, match=message) as failure:
        read_kubeconfig([path])
    assert str(path) in str(failure.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "is not valid YAML"),
        (b"\x00\x01", "is not valid YAML"),
        (b"\xff\xfe\x00", "is not valid YAML"),
        (b"- a\n- b\n", "is not a kubeconfig: Expected `object`, got `array`"),
        (b"just text", "is not a kubeconfig"),
        (b"", "no context is chosen"),
        (b"[" * 100_000, "is nested more than 50 levels deep"),
        (b"a: &a [1]\nb: *a\n", "aliases of YAML"),
        (b"clusters: !!python/object/apply:os.system ['true']", "is not valid YAML"),
        (b"a: " + b"x" * (9 << 20), "is larger than 8 MiB"),
    ],
    ids=["broken", "binary", "bad bytes", "list", "text", "empty", "deep", "aliases", "python objects", "large"],
)
def test_a_broken_or_hostile_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(BadConfiguration, match=message) as failure:
        read_kubeconfig([path])
    assert len(str(failure.value)) < 1000


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="cannot be read: Is a directory"):
        find_api_server(str(tmp_path))


# --- tokens, certificates, impersonation ------------------------------------------------------------------------------


def test_a_token_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    server = read_kubeconfig([write(tmp_path / "config", user={"token": "not this", "tokenFile": str(token)})])

    first = server.credentials.read()
    token.write_text("two")
    assert server.credentials.read() is first, "files are not read for every request"
    server.credentials.rejected(first)
    assert dict(server.credentials.read().headers) == {"Authorization": "Bearer two"}
    monkeypatch.setattr(credentials_module, "REREAD_S", 0.0)
    token.write_text("three")
    assert dict(server.credentials.read().headers) == {"Authorization": "Bearer three"}
    token.unlink()
    assert dict(server.credentials.read().headers) == {"Authorization": "Bearer three"}


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xff", b"a\r\nX-Other: b"])
def test_a_file_without_a_token_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    server = read_kubeconfig([write(tmp_path / "config", user={"tokenFile": "token"})])
    with pytest.raises(BadConfiguration, match="token: does not contain a token"):
        access(server)


def test_authorities_and_client_certificates_are_given_in_files_or_in_full(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    certificate, key = authority.sign("client", user="carol", group="researchers")
    files = {"client-certificate": str(certificate), "client-key": str(key)}
    data = {f"{name}-data": base64.b64encode(Path(path).read_bytes()).decode() for name, path in files.items()}
    ca = base64.b64encode(authority.certificate.read_bytes()).decode()
    for user in (files, data):
        for cluster in ({"certificate-authority": str(authority.certificate)}, {"certificate-authority-data": ca}):
            shown = access(read_kubeconfig([write(tmp_path / "config", cluster=cluster, user=user)]))
            assert shown.headers == ()
            assert shown.tls.verify_mode is ssl.CERT_REQUIRED
            assert [each["subject"] for each in shown.tls.get_ca_certs()] != []


def test_a_key_that_does_not_belong_to_the_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    certificate, _ = authority.sign("one", user="carol")
    _, key = authority.sign("other", user="dave")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    with pytest.raises(BadConfiguration, match="the client certificate or its key is not valid"):
        access(read_kubeconfig([write(tmp_path / "config", user=user)]))


def test_an_authority_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n")
    with pytest.raises(
        BadConfiguration, match=r"the certificate of the authority \(certificate-authority\) is not valid"
    ):
        access(read_kubeconfig([write(tmp_path / "config", cluster={"certificate-authority": "ca"})]))


def test_the_servers_certificate_is_not_checked_only_if_the_file_says_so(tmp_path: Path) -> None:
    assert access(read_kubeconfig([write(tmp_path / "config")])).tls.check_hostname
    insecure = write(tmp_path / "config", cluster={"insecure-skip-tls-verify": True, "tls-server-name": "kubernetes"})
    server = read_kubeconfig([insecure])
    assert access(server).tls.verify_mode is ssl.CERT_NONE
    assert server.tls_server_name == "kubernetes"


def test_impersonation_is_sent(tmp_path: Path) -> None:
    user = {"token": "t", "as": "carol", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"s/c": ["x"]}}
    assert access(read_kubeconfig([write(tmp_path / "config", user=user)])).headers == (
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "carol"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-s%2Fc", "x"),
    )


# --- exec plugins -----------------------------------------------------------------------------------------------------


def plugin(tmp_path: Path, script: str, *, version: str = exec_plugin.VERSIONS[0], **more: Any) -> ApiServer:
    program(tmp_path / "plugin", script)
    settings = {"command": "./plugin", "apiVersion": version, **more}
    return read_kubeconfig([write(tmp_path / "config", user={"exec": settings})])


def credential(token: str = "t", version: str = exec_plugin.VERSIONS[0], **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": token, **status}})


@pytest.mark.parametrize("version", exec_plugin.VERSIONS)
def test_a_plugin_prints_the_token_and_is_told_about_the_cluster(version: str, tmp_path: Path) -> None:
    script = f'printf \'%s\' "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "$1 $MODE" > {tmp_path}/arguments\n'
    settings = {"args": ["login"], "env": [{"name": "MODE", "value": "m"}], "provideClusterInfo": True}
    server = plugin(tmp_path, script + f"echo '{credential('from-plugin', version)}'", version=version, **settings)
    assert headers(server) == {"Authorization": "Bearer from-plugin"}
    assert (tmp_path / "arguments").read_text() == "login m\n"
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": SERVER}},
    }


def test_a_plugin_runs_once_until_its_credential_expires_or_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials_module, "REREAD_S", 0.0)
    monkeypatch.setattr(exec_plugin, "REPEAT_S", 0.0)
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    count = f"n=$(cat {tmp_path}/runs 2>/dev/null || echo 0); n=$((n+1)); echo $n > {tmp_path}/runs\n"
    lasting = count + f"echo '{credential(expirationTimestamp=later)}'"
    server = plugin(tmp_path, lasting)

    def runs(times: int) -> int:
        for _ in range(times):
            server.credentials.read()
        return int((tmp_path / "runs").read_text())

    assert runs(5) == 1
    server.credentials.rejected(server.credentials.read())
    assert runs(5) == 2
    server = plugin(tmp_path, count + f"echo '{credential(expirationTimestamp=soon)}'")
    assert [runs(1), runs(1)] == [3, 4], "it is replaced before it expires"


def test_a_plugin_whose_tokens_are_rejected_is_not_run_for_every_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "REPEAT_S", 60.0)
    server = plugin(tmp_path, f"echo x >> {tmp_path}/runs; echo '{credential()}'")

    for _ in range(10):
        server.credentials.rejected(server.credentials.read())
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    certificate, key = (Path(each) for each in Authority(tmp_path / "certificates").sign("client", user="carol"))
    status = {"clientCertificateData": certificate.read_text(), "clientKeyData": key.read_text()}
    (tmp_path / "answer").write_text(credential("", **status))
    assert access(plugin(tmp_path, f"cat {tmp_path}/answer")).headers == ()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'not signed in' >&2; exit 3", "failed with exit code 3: not signed in"),
        ("echo hello", "does not print an ExecCredential"),
        ("echo '{}'", "prints '' of ''"),
        (
            f"echo '{credential(version='client.authentication.k8s.io/v1beta1')}'",
            "v1beta1' .expected 'ExecCredential' of",
        ),
        (f"echo '{credential('')}'", "prints neither a token nor a client certificate"),
        (f"echo '{credential(expirationTimestamp='tomorrow')}'", "does not print an ExecCredential: Invalid RFC3339"),
    ],
)
def test_a_plugin_that_fails_is_quoted(script: str, message: str, tmp_path: Path) -> None:
    server = plugin(tmp_path, script)
    with pytest.raises(BadConfiguration, match=f"config: exec plugin './plugin': .*{message}"):
        access(server)


def test_a_plugin_that_is_not_installed_shows_its_hint(tmp_path: Path) -> None:
    settings = {"command": "no-such-plugin", "apiVersion": exec_plugin.VERSIONS[0], "installHint": "Get it from us."}
    server = read_kubeconfig([write(tmp_path / "config", user={"exec": settings})])
    with pytest.raises(BadConfiguration, match=r"'no-such-plugin': the program is not installed\nGet it from us\."):
        access(server)


def test_a_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_plugin, "LIMIT_S", 0.2)
    with pytest.raises(BadConfiguration, match=r"has not ended within 0\.2 s"):
        access(plugin(tmp_path, "exec sleep 20"))


# --- the service account of a pod -------------------------------------------------------------------------------------


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "ca.crt").write_bytes(Authority(tmp_path / "certificates").certificate.read_bytes())
    (folder / "namespace").write_text("fairpool")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return folder


def test_a_pod_finds_its_cluster(service_account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = in_cluster(service_account)
    assert server is not None
    assert (server.url, server.namespace) == ("https://10.96.0.1:443", "fairpool")
    assert headers(server) == {"Authorization": "Bearer first"}
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    ipv6 = in_cluster(service_account)
    assert ipv6 is not None
    assert ipv6.url == "https://[fd00::1]:443"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert in_cluster(service_account) is None


def test_a_token_and_an_authority_that_are_rotated_are_used(
    service_account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = in_cluster(service_account)
    assert server is not None
    monkeypatch.setattr(credentials_module, "REREAD_S", 0.0)

    first = server.credentials.read()
    assert server.credentials.read() is first
    (service_account / "token").write_text("second")
    second = server.credentials.read()
    assert dict(second.headers) == {"Authorization": "Bearer second"}
    (service_account / "ca.crt").write_bytes(Authority(tmp_path / "next").certificate.read_bytes())
    third = server.credentials.read()
    assert third.tls.get_ca_certs() != second.tls.get_ca_certs()


def test_keys_that_are_written_for_a_moment_are_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []

    def load(self: ssl.SSLContext, path: Path, password: str) -> None:
        modes.extend(stat.S_IMODE(os.stat(each).st_mode) for each in (path, path.parent))

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    certificate, key = (Path(each) for each in Authority(tmp_path / "certificates").sign("client", user="carol"))
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    access(read_kubeconfig([write(tmp_path / "config", user=user)]))
    assert modes == [0o600, 0o700]


def test_credentials_are_only_asked_for_once_at_a_time() -> None:
    asked = 0

    def source(_rejected: bool) -> credentials_module.Identification:
        nonlocal asked
        asked += 1
        time.sleep(0.01)
        return credentials_module.Identification(token="t")

    credentials = Credentials(source)
    with ThreadPoolExecutor() as threads:
        shown = [each.result() for each in [threads.submit(credentials.read) for _ in range(20)]]
    assert len({id(each) for each in shown}) == 1
    assert asked == 1
