"""exec plugins of kubeconfig files: programs that print a credential (client.authentication.k8s.io).

The program runs without a terminal, and again when its credential expires or was rejected.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from fairpool.engines.kubernetes.failures import BadConfiguration

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
LIMIT_S = 60.0
EARLY_S = 30.0
"""A credential is replaced so long before it expires."""
REPEAT_S = 5.0
"""A plugin is not run more often than this, even if the API server rejects what it prints."""
MESSAGE_CHARACTERS = 1000


class PluginVariable(msgspec.Struct):
    """A variable of the program's environment."""

    name: str
    value: str = ""


class PluginSettings(msgspec.Struct, rename="camel"):
    """`exec` of a user."""

    command: str = ""
    args: list[str] | None = None
    env: list[PluginVariable] | None = None
    api_version: str = ""
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


class PluginCluster(msgspec.Struct, rename="kebab", omit_defaults=True):
    """What a plugin is told about the cluster."""

    server: str
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: str = ""


class PluginStatus(msgspec.Struct, rename="camel"):
    """`status` of what a plugin prints."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class PluginAnswer(msgspec.Struct, rename="camel"):
    """What a plugin prints."""

    api_version: str = ""
    kind: str = ""
    status: PluginStatus | None = None


@dataclass(frozen=True, slots=True)
class PluginCredential:
    """What a plugin has given."""

    token: str
    certificate: bytes
    key: bytes
    expires_at: float | None
    """By the clock of this machine; None: when it is rejected."""


class ExecPlugin:
    """One program with its settings, and the credential that it last gave."""

    def __init__(self, settings: PluginSettings, kubeconfig: Path, cluster: PluginCluster) -> None:
        self._settings, self._cluster = settings, cluster
        self._where = f"{kubeconfig}: exec plugin {settings.command!r}"
        self._command = self._resolved(kubeconfig.parent)
        self._credential: PluginCredential | None = None
        self._ran_at = 0.0
        if not settings.command:
            raise BadConfiguration(f"{self._where}: has no command")
        if settings.api_version not in VERSIONS:
            expected = " or ".join(VERSIONS)
            raise BadConfiguration(
                f"{self._where}: apiVersion {settings.api_version!r} is not supported (expected {expected})"
            )
        if settings.interactive_mode == "Always":
            raise BadConfiguration(f"{self._where}: asks for a terminal (interactiveMode: Always), and there is none")

    def credential(self, was_rejected: bool) -> PluginCredential:
        """The credential; runs the program if there is none that is valid. Blocks for as long as it runs."""
        known = self._credential
        if known is not None:
            has_expired = known.expires_at is not None and time.time() >= known.expires_at - EARLY_S
            is_recent = time.monotonic() - self._ran_at < REPEAT_S
            if is_recent or not (was_rejected or has_expired):
                return known
        self._ran_at = time.monotonic()
        self._credential = self._read(self._output())
        return self._credential

    def _resolved(self, folder: Path) -> str:
        """A path is relative to the file that contains it; a name is looked up in PATH."""
        command = self._settings.command
        return str(folder / command) if "/" in command else command

    def _output(self) -> bytes:
        settings = self._settings
        environment = {**os.environ, **{each.name: each.value for each in settings.env or ()}}
        environment["KUBERNETES_EXEC_INFO"] = self._information()
        try:
            ended = subprocess.run(
                [self._command, *(settings.args or ())],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LIMIT_S,
                check=False,
            )
        except FileNotFoundError:
            hint = f"\n{settings.install_hint}" if settings.install_hint else ""
            raise BadConfiguration(f"{self._where}: the program is not installed{hint}") from None
        except subprocess.TimeoutExpired:
            raise BadConfiguration(f"{self._where}: has not ended within {LIMIT_S:g} s") from None
        except (OSError, ValueError) as error:
            raise BadConfiguration(f"{self._where}: cannot be run: {error}") from None
        if ended.returncode != 0:
            said = ended.stderr.decode("utf-8", "replace").strip()[-MESSAGE_CHARACTERS:]
            raise BadConfiguration(f"{self._where}: failed with exit code {ended.returncode}: {said or 'no message'}")
        return ended.stdout

    def _information(self) -> str:
        """What the protocol passes in KUBERNETES_EXEC_INFO."""
        spec: dict[str, object] = {"interactive": False}
        if self._settings.provide_cluster_info:
            spec["cluster"] = self._cluster
        content = {"apiVersion": self._settings.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(content).decode()

    def _read(self, output: bytes) -> PluginCredential:
        try:
            answer = msgspec.json.decode(output, type=PluginAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadConfiguration(f"{self._where}: does not print an ExecCredential: {error}") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._settings.api_version:
            raise BadConfiguration(
                f"{self._where}: prints {answer.kind!r} of {answer.api_version!r}"
                f" (expected 'ExecCredential' of {self._settings.api_version!r})"
            )
        status = answer.status or PluginStatus()
        if not status.token and not (status.client_certificate_data and status.client_key_data):
            raise BadConfiguration(f"{self._where}: prints neither a token nor a client certificate with its key")
        expires = status.expiration_timestamp
        return PluginCredential(
            token=status.token,
            certificate=status.client_certificate_data.encode(),
            key=status.client_key_data.encode(),
            expires_at=None if expires is None else expires.timestamp(),
        )
