"""A real Keycloak for tests: fetched from the Maven registry once, started once for a whole test run.

All workers of a run share it: the first one that needs it starts it, under a file lock, and the last one that is done
stops it. Each test has a realm of its own, made through the admin API.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import needs
from tests.running_platform import PATIENCE_S

VERSION = "26.0.7"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fairpool-tests"
HOME = CACHE / f"keycloak-{VERSION}"
START_S = 300.0
"""The first start also builds it; machines are busy."""
OLD_S = 86_400.0
ADMIN, PASSWORD = "admin", "admin of a test"


@dataclass
class Realm:
    """A realm of the running Keycloak."""

    address: str
    name: str
    _token: str = ""
    _until: float = 0.0
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return f"{self.address}/realms/{self.name}"

    @property
    def discovery(self) -> str:
        return f"{self.issuer}/.well-known/openid-configuration"

    @property
    def saml_metadata(self) -> str:
        return f"{self.issuer}/protocol/saml/descriptor"

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """One call of the admin API, below the realm; what a created object is called is in `location`."""
        return self._call(method, f"/admin/realms/{self.name}{path}", body)

    def user(self, name: str, *, groups: tuple[str, ...] = (), **attributes: str) -> str:
        """A user with the password `secret-NAME`; the ID."""
        body = {
            "username": name,
            "email": f"{name}@company.test",
            "emailVerified": True,
            "firstName": name.title(),
            "lastName": "Test",
            "enabled": True,
            "attributes": {key: [value] for key, value in attributes.items()},
            "credentials": [{"type": "password", "value": f"secret-{name}", "temporary": False}],
        }
        self.ids[name] = self.admin("POST", "/users", body)
        for each in groups:
            self.join(name, each)
        return self.ids[name]

    def join(self, user: str, group: str) -> None:
        if group not in self.ids:
            self.ids[group] = self.admin("POST", "/groups", {"name": group})
        self.admin("PUT", f"/users/{self.ids[user]}/groups/{self.ids[group]}")

    def leave(self, user: str, group: str) -> None:
        self.admin("DELETE", f"/users/{self.ids[user]}/groups/{self.ids[group]}")

    def set_enabled(self, user: str, *, enabled: bool) -> None:
        self.admin("PUT", f"/users/{self.ids[user]}", {"enabled": enabled})

    def sign_out(self, user: str) -> None:
        """As its administrator does: clients are told by their back channel."""
        self.admin("POST", f"/users/{self.ids[user]}/logout")

    def oidc_client(self, name: str, secret: str, here: str, alias: str) -> None:
        """The platform, as this realm knows it: groups, uid, gid and further groups are claims."""
        self.admin(
            "POST",
            "/clients",
            {
                "clientId": name,
                "secret": secret,
                "protocol": "openid-connect",
                "publicClient": False,
                "standardFlowEnabled": True,
                "redirectUris": [f"{here}/sign-in/with/{alias}/callback"],
                "attributes": {
                    "pkce.code.challenge.method": "S256",
                    "backchannel.logout.url": f"{here}/sign-in/with/{alias}/logout",
                    "backchannel.logout.session.required": "true",
                },
                "protocolMappers": [_group_claim(), *(_claim(each) for each in ("UID", "GID", "SUPPLEMENTARYGROUPS"))],
            },
        )

    def saml_client(self, entity_id: str, here: str, alias: str, **attributes: str) -> None:
        """The same for SAML."""
        self.admin(
            "POST",
            "/clients",
            {
                "clientId": entity_id,
                "protocol": "saml",
                "redirectUris": [f"{here}/sign-in/with/{alias}/*"],
                "adminUrl": f"{here}/sign-in/with/{alias}/acs",
                "attributes": {
                    "saml.server.signature": "true",
                    "saml.assertion.signature": "false",
                    "saml.client.signature": "false",
                    "saml.signature.algorithm": "RSA_SHA256",
                    "saml_force_name_id_format": "true",
                    "saml_name_id_format": "persistent",
                    "saml.force.post.binding": "true",
                    **attributes,
                },
                "protocolMappers": [_group_attribute(), _email_attribute(), *map(_attribute, ("UID", "GID"))],
            },
        )

    def rotate_keys(self) -> None:
        """A new signing key with a higher priority."""
        provider = {
            "name": f"rotated-{time.monotonic_ns()}",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {"priority": [str(1000 + len(self.ids))], "enabled": ["true"], "active": ["true"]},
        }
        self.admin("POST", "/components", provider)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self._admin_token()}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                text, location = answer.read(), answer.headers.get("location", "")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read()!r}") from error
        return json.loads(text) if text else location.rpartition("/")[2]

    def _admin_token(self) -> str:
        if time.monotonic() >= self._until:
            form = {"grant_type": "password", "client_id": "admin-cli", "username": ADMIN, "password": PASSWORD}
            url = f"{self.address}/realms/master/protocol/openid-connect/token"
            with urllib.request.urlopen(url, urllib.parse.urlencode(form).encode(), timeout=PATIENCE_S) as answer:
                self._token = json.load(answer)["access_token"]
            self._until = time.monotonic() + 30
        return self._token


def _mapper(name: str, kind: str, protocol: str, **config: str) -> dict[str, Any]:
    return {"name": name, "protocol": protocol, "protocolMapper": kind, "config": config}


def _group_claim() -> dict[str, Any]:
    named = {"claim.name": "groups", "full.path": "false", "id.token.claim": "true", "userinfo.token.claim": "true"}
    return _mapper("groups", "oidc-group-membership-mapper", "openid-connect", **named)


def _claim(name: str) -> dict[str, Any]:
    config = {"user.attribute": name, "claim.name": name, "jsonType.label": "String", "id.token.claim": "true"}
    return _mapper(name, "oidc-usermodel-attribute-mapper", "openid-connect", **config)


def _group_attribute() -> dict[str, Any]:
    config = {"attribute.name": "GROUPS", "full.path": "false", "single": "true", "attribute.nameformat": "Basic"}
    return _mapper("groups", "saml-group-membership-mapper", "saml", **config)


def _email_attribute() -> dict[str, Any]:
    config = {"user.attribute": "email", "attribute.name": "email", "attribute.nameformat": "Basic"}
    return _mapper("email", "saml-user-property-mapper", "saml", **config)


def _attribute(name: str) -> dict[str, Any]:
    config = {"user.attribute": name, "attribute.name": name, "attribute.nameformat": "Basic"}
    return _mapper(name, "saml-user-attribute-mapper", "saml", **config)


@contextmanager
def realm(address: str, name: str) -> Iterator[Realm]:
    """A new realm of the running Keycloak."""
    made = Realm(address, f"{name}-{os.getpid()}-{time.monotonic_ns()}")
    made._call("POST", "/admin/realms", {"realm": made.name, "enabled": True, "sslRequired": "none"})
    profile = made.admin("GET", "/users/profile")
    made.admin("PUT", "/users/profile", {**profile, "unmanagedAttributePolicy": "ENABLED"})
    try:
        yield made
    finally:
        made._call("DELETE", f"/admin/realms/{made.name}")


@contextmanager
def running() -> Iterator[str]:
    """The address of the Keycloak of this test run; `FAIRPOOL_KEYCLOAK` names one that runs already."""
    if given := os.environ.get("FAIRPOOL_KEYCLOAK"):
        yield given
        return
    place = CACHE / f"run-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    mine = place / f"user-{os.getpid()}"
    with _locked():
        mine.touch()
        if not (place / "address").exists():
            _stop_old()
            _start(place)
        address = (place / "address").read_text()
    try:
        yield address
    finally:
        with _locked():
            mine.unlink()
            if not any(place.glob("user-*")):
                _stop(place)


def _stop_old() -> None:
    """Of runs that were killed."""
    for each in CACHE.glob("run-*/"):
        if time.time() - each.stat().st_mtime > OLD_S:
            _stop(each)


@contextmanager
def _locked() -> Iterator[None]:
    with open(CACHE / "run.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(place: Path) -> None:
    # Its start writes into its own directory, and other test runs may start it at the same time.
    shutil.copytree(_fetched(), place / "home", copy_function=_linked)
    program = place / "home" / "bin" / "kc.sh"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    needs.program("java", "default-jre-headless")
    environment = {
        **os.environ,
        "KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN,
        "KC_BOOTSTRAP_ADMIN_PASSWORD": PASSWORD,
        "JAVA_OPTS_APPEND": "-Xmx512m -XX:TieredStopAtLevel=1",
    }
    options = ("--cache=local", "--http-host=127.0.0.1", f"--http-port={port}")
    with open(place / "log", "wb") as log:
        process = subprocess.Popen(
            [str(program), "start-dev", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # it outlives the worker that needed it first
        )
    (place / "pid").write_text(str(process.pid))
    address, end = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    while True:
        with suppress(OSError), urllib.request.urlopen(f"{address}/realms/master", timeout=PATIENCE_S):
            break
        said = (place / "log").read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"Keycloak ended: {said}"
        assert time.monotonic() < end, f"Keycloak did not start: {said}"
        time.sleep(0.25)
    (place / "address").write_text(address)


def _linked(source: str, target: str) -> None:
    if "/lib/lib/" in source:
        os.link(source, target)  # nearly all of it, and only read
    else:
        shutil.copy2(source, target)


def _stop(place: Path) -> None:
    with suppress(OSError, ValueError):
        os.killpg(int((place / "pid").read_text()), signal.SIGKILL)  # its database goes too
    shutil.rmtree(place, ignore_errors=True)


def _fetched() -> Path:
    """The unpacked distribution, in a cache of this user."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "keycloak.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not HOME.exists():
            maven = needs.program("mvn", "maven")
            artifact = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                for goal in (
                    ("dependency:get", "-Dtransitive=false"),
                    ("dependency:copy", f"-DoutputDirectory={folder}", "-Dmdep.useBaseVersion=true"),
                ):
                    command = [maven, "-q", "-B", f"-Dartifact={artifact}", *goal]
                    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
                    if done.returncode:
                        needs.skip_unless_ci(f"Keycloak could not be fetched: {done.stdout[-1000:]}")
                with zipfile.ZipFile(next(Path(folder).glob("*.zip"))) as archive:
                    archive.extractall(folder)
                (Path(folder) / HOME.name / "bin" / "kc.sh").chmod(0o755)
                (Path(folder) / HOME.name).rename(HOME)
    return HOME
