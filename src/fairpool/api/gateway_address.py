"""Address of the gateway: its own name, and the names below it, one for each port of a workload. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from fairpool.model.problem import Problem

LABEL_MAX = 63
PATH_MAX = 4096
"""Of a path that is returned to after signing in."""


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """The address under which users reach the gateway; tools are at names below its host."""

    scheme: str
    host: str
    port: int | None

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def place(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.place}"

    def origin_url(self, label: str) -> str:
        return f"{self.scheme}://{label}.{self.place}"

    def label_in(self, host: str) -> str | None:
        """The label below the gateway's name; empty: the gateway itself; None: another name."""
        return _label_in(host, self.host)


@lru_cache(maxsize=1024)
def _label_in(host: str, own: str) -> str | None:
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    name = name.removesuffix(".")
    if name == own or (own == "localhost" and _is_loopback(name)):
        return ""
    label, _, rest = name.partition(".")
    return label if rest == own and 0 < len(label) <= LABEL_MAX else None


def read_gateway_url(text: str) -> GatewayAddress | Problem:
    """`https://tools.example.com[:port]`."""
    fix = "expected e.g. https://tools.example.com: a name under which every name below it leads here"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return Problem("gateway.url", f"{text!r} is not a valid URL", fix)
    extra = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme not in ("http", "https") or not host or extra:
        return Problem("gateway.url", f"{text!r} is not the URL of a host", fix)
    if is_ip_address(host):
        return Problem("gateway.url", f"{host} is an IP address: there are no names below it", fix)
    return GatewayAddress(parts.scheme, host, None if port == {"http": 80, "https": 443}[parts.scheme] else port)


def local_path(path: str) -> str:
    """A path on the same origin, also if it was meant to lead elsewhere."""
    is_local = path.startswith("/") and not path.startswith("//") and "\\" not in path and len(path) <= PATH_MAX
    return path if is_local and path.isprintable() else "/"


def is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
