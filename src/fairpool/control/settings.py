"""Settings of the control plane that are fixed when it starts."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fairpool.api.gateway_address import GatewayAddress
from fairpool.control.outbound import Network
from fairpool.model.ids import Instant

FIRST_USER = "test@run.ai"
FIRST_PASSWORD = "password"
"""The password with which earlier releases made the first account. No new account has it, and none may choose it."""
BODY_MAX_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long history is kept."""

    history_s: int = 30 * 86_400
    """Deleted workloads with their pods and events; events and changes of all workloads."""
    audit_s: int = 365 * 86_400
    usage_s: int = 35 * 86_400
    """What single pods used; sums of hours are kept."""

    def __post_init__(self) -> None:
        assert self.shortest_s > 0, "retention times must be greater than zero"

    @property
    def shortest_s(self) -> int:
        return min(self.history_s, self.audit_s, self.usage_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the control plane."""

    data: Path
    """Its directory; created if missing."""
    database: str = field(default="", repr=False)
    """Address of a PostgreSQL database, which may contain a password; empty: a file in the directory."""
    keys: Path | None = None
    """Directory with the keys of credentials and tokens, for processes that share a database; None: the data
    directory."""
    host: str = "127.0.0.1"
    url: str = ""
    """Where clients reach this server: the issuer of tokens."""
    pod_host: str = ""
    """Host name under which external ports are reached; empty: not known, no address is shown."""
    gateway: GatewayAddress | None = None
    """Where web tools in pods are reached; None: nowhere, no address is shown."""
    host_names: tuple[str, ...] = ()
    """Names of this server besides the machine's own; requests with another Host header are refused."""
    first_user: str = FIRST_USER
    first_password: str = field(default="", repr=False)
    """For the first account if it has no password yet; must be changed before anything else. Empty: it gets none."""
    first_project: str = ""
    """Created on an empty installation; empty: none."""
    access_token_s: int = 36_000
    refresh_token_s: int = 30 * 86_400
    pull_wait_s: float = 20.0
    """How long a pull waits for something to change."""
    cluster_away_s: float = 60.0
    """A cluster that has not called for this long is shown as disconnected."""
    keep_alive_s: float = 5.0
    """Interval of `alive` events on streams of changes. The web UI calls what it shows old after 15 s without one."""
    body_max_bytes: int = BODY_MAX_BYTES
    changes_kept: int = 100_000
    """Changes kept for clients of the stream that reconnect."""
    idempotency_s: int = 86_400
    """How long the answer to a call is kept for its Idempotency-Key."""
    retention: Retention = Retention()
    network: Network | None = None
    """How webhooks are reached; None: as the machine does."""
    audit_forward: str = ""
    """Where audit entries are forwarded to, see `audit_targets.py`; empty: nowhere."""
    cluster_name: str = "local"
    """The cluster of a new installation; empty: none, an administrator adds them."""
    program: str = "control"
    """As Prometheus calls it."""
    now: Callable[[], Instant] | None = None
    """The clock; None: this machine's."""

    @property
    def issuer(self) -> str:
        """Of access tokens, without a slash at the end."""
        return self.url.rstrip("/") or f"http://{self.host}"

    @property
    def is_local(self) -> bool:
        """Whether the server is only reachable from this machine."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
