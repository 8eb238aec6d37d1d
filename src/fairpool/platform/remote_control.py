"""A control plane elsewhere, as a cluster joins it: address, token, certificates, and which cluster this is.

The data directory remembers the cluster that it belongs to. A token of another cluster is refused before anything is
pulled: the declarations of that one would end every pod of this one.
"""

from __future__ import annotations

import json
import os
import ssl
import stat
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from fairpool.agent.durable import write_durably
from fairpool.api.cluster_client import ClusterClient
from fairpool.api.cluster_equipment import EquipmentAnswer, EquipmentReport
from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport
from fairpool.api.credentials import SecretsAnswer, SecretsRequest
from fairpool.api.loopback import is_here
from fairpool.api.samples import SamplesAnswer, SamplesReport
from fairpool.api.server_address import server_address
from fairpool.model.ids import Revision
from fairpool.model.problem import Problem
from fairpool.platform.data_directory import DataDirectory, PlatformError, directory_problem

T = TypeVar("T")

TOKEN_MAX = 4096


@dataclass(frozen=True, slots=True)
class ControlTarget:
    """Where the control plane is, and what proves to it which cluster calls."""

    url: str
    token: str = field(repr=False)
    certificates: ssl.SSLContext | None = None

    @property
    def is_readable_on_the_way(self) -> bool:
        """Whether the token travels unencrypted to another machine."""
        return self.url.startswith("http://") and not is_here(self.url)

    def client(self) -> ClusterClient:
        return ClusterClient(self.url, self.token, self.certificates)


@dataclass(frozen=True, slots=True)
class Membership:
    """The cluster that a data directory belongs to."""

    installation: str
    """Of this data directory, or of the Kubernetes cluster: the control plane lets only one join as a cluster."""
    id: str = ""
    """Empty: it has never joined."""
    name: str = ""

    @classmethod
    def of(cls, data_directory: DataDirectory) -> Membership:
        """A new one, if there is none yet. Raises `PlatformError`."""
        try:
            said = json.loads(data_directory.membership.read_bytes())
            return cls(str(said["installation"]), str(said.get("id", "")), str(said.get("name", "")))
        except FileNotFoundError:
            new = cls(str(uuid.uuid4()))
            new.keep(data_directory)  # before it is used: a crash must not make this another installation
            return new
        except OSError as error:
            raise PlatformError(directory_problem(data_directory.root, error)) from error
        except (ValueError, LookupError, TypeError) as error:
            what = f"{data_directory.membership} cannot be read: {error}"
            fix = "if this is the right directory and token, delete that file and start again"
            raise PlatformError(Problem("cluster.membership", what, fix)) from error

    def keep(self, data_directory: DataDirectory) -> None:
        """Raises `PlatformError`."""
        try:
            write_durably(data_directory.membership, json.dumps(asdict(self)).encode())
        except OSError as error:
            raise PlatformError(directory_problem(data_directory.root, error)) from error

    def problem_with(self, other: Membership) -> Problem | None:
        """Why the token is not the right one, if it is that of another cluster."""
        if self.id in ("", other.id):
            return None
        what = f"this data directory belongs to cluster {self.name}, and the token to cluster {other.name}"
        return Problem("cluster.other", what, "pass the token of that cluster, or another directory with --data")


def read_target(url: str, token_file: Path, ca_file: Path | None) -> ControlTarget | list[Problem]:
    """The control plane that the flags name, or all that is wrong with them."""
    address, token, certificates = _read_url(url), _read_token(token_file), _read_certificates(ca_file)
    problems = [each for each in (address, token, certificates) if isinstance(each, Problem)]
    if problems:
        return problems
    assert isinstance(address, str)
    assert isinstance(token, str)
    assert not isinstance(certificates, Problem)
    if certificates is not None and address.startswith("http://"):
        what = "--ca-file has no effect on an http:// address"
        return [Problem("control.address", what, "pass an https:// address, or leave --ca-file out")]
    return ControlTarget(address, token, certificates)


def _read_url(text: str) -> str | Problem:
    full = server_address(text)
    if full is None or "@" in full:
        fix = "expected e.g. https://fairpool.example.com or http://127.0.0.1:8080"
        return Problem("control.address", f"--control: {text!r} is not a valid address", fix)
    return full


def _read_token(file: Path) -> str | Problem:
    fix = "pass the file that `runai-adm cluster create NAME --token-file FILE` wrote"
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            content = opened.read(TOKEN_MAX + 1)
    except OSError as error:
        what = f"--token-file: {file} cannot be read: {(error.strerror or str(error)).lower()}"
        return Problem("control.token_file", what, fix)
    # As libpq has it for keys: a file of root's may be readable by a group, as Kubernetes mounts secrets.
    is_of_root = status.st_uid == 0 and os.geteuid() != 0
    if stat.S_ISREG(status.st_mode) and status.st_mode & (0o037 if is_of_root else 0o077):
        what = f"--token-file: other users can read {file}"
        return Problem("control.token_file", what, f"run: chmod 600 {file}")
    words = content.decode("ascii", "replace").split()
    if len(words) != 1 or len(content) > TOKEN_MAX or not words[0].isprintable() or "\ufffd" in words[0]:
        return Problem("control.token_file", f"--token-file: {file} does not contain a token", fix)
    return words[0]


def _read_certificates(file: Path | None) -> ssl.SSLContext | Problem | None:
    if file is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(file))
    except ssl.SSLError:
        reason = "it contains no certificate"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    fix = "pass the certificate of the authority that signed the control plane's, as a PEM file"
    return Problem("control.ca_file", f"--ca-file: {file} cannot be used: {reason}", fix)


class RemoteControl:
    """Pull and push, after the control plane has confirmed that this is the cluster it was. For one thread.

    `on_return`: called when it answers again after a call had failed.
    """

    def __init__(self, target: ControlTarget, member: Membership, on_return: Callable[[], None]) -> None:
        self._client, self._member, self._on_return = target.client(), member, on_return
        self._is_confirmed = self._is_away = False

    def close(self) -> None:
        self._client.close()

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """Raises `ControlPlaneUnreachable`."""
        return self._asked(lambda: self._client.pull(after, wait_s))

    def samples(self, report: SamplesReport) -> SamplesAnswer:
        """Raises `ControlPlaneUnreachable`."""
        return self._asked(lambda: self._client.samples(report))

    def secrets(self, request: SecretsRequest) -> SecretsAnswer:
        """Raises `ControlPlaneUnreachable`."""
        return self._asked(lambda: self._client.secrets(request))

    def equipment(self, report: EquipmentReport) -> EquipmentAnswer:
        """Raises `ControlPlaneUnreachable`."""
        return self._asked(lambda: self._client.equipment(report))

    def push(self, report: PushReport) -> PushAnswer:
        """Raises `ControlPlaneUnreachable`."""
        return self._asked(lambda: self._client.push(report))

    def _asked(self, call: Callable[[], T]) -> T:
        try:
            self._confirm()
            answer = call()
        except ControlPlaneUnreachable:
            self._is_away = True
            raise
        if self._is_away:
            self._is_away = False
            self._on_return()
        return answer

    def _confirm(self) -> None:
        if self._is_confirmed:
            return
        problem = self._member.problem_with(joined(self._client, self._member))
        if problem is not None:
            raise ControlPlaneUnreachable(problem.what, problem)
        self._is_confirmed = True


def joined(client: ClusterClient, member: Membership) -> Membership:
    """The same installation as the cluster that the token belongs to. Raises `ControlPlaneUnreachable`."""
    answer = client.join(member.installation)
    return replace(member, id=answer.uuid, name=answer.name)
