"""Which URLs and addresses the server may connect to for users and administrators. Pure.

A webhook, an identity provider or a metadata document is a URL that a person typed, and the server would reach for them
what they cannot reach themselves. So a URL is read strictly (one spelling of each host, no credentials, known
ports), and the addresses that its host resolves to are judged one by one, after resolving and before connecting.
`control/outbound.py` connects to an address that was judged here, and to no other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from fairpool.model.problem import Problem

URL_MAX: Final = 2048
HOST_MAX: Final = 253
DEFAULT_PORTS: Final = {"https": 443, "http": 80}

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNSAFE = re.compile(r"[^\x21-\x7e]|[\\^`{|}<>\"]")

METADATA: Final = frozenset(
    map(ip_address, ("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192"))
) | {ip_address("fd00:ec2::254"), ip_address("fd20:ce::254")}
"""Where clouds answer machines about themselves, with credentials. One of them is a public address."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_CARRIERS: Final = (
    IPv6Network("::/96"),  # IPv4-compatible
    IPv6Network("::ffff:0:0/96"),  # IPv4-mapped
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated
    IPv6Network("64:ff9b:1::/48"),  # local NAT64
    IPv6Network("2001::/32"),  # Teredo
    IPv6Network("2002::/16"),  # 6to4
)
"""IPv6 addresses that carry an IPv4 address. No public host has one, and what they carry may be any address."""
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
_SHARED: Final = IPv4Network("100.64.0.0/10")

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundRules:
    """What may be reached for one purpose."""

    hosts: tuple[str, ...] | None = None
    """`hooks.example.com`, `*.example.com`, either with `:port`; None: any host."""
    schemes: frozenset[str] = frozenset({"https"})
    ports: frozenset[int] | None = frozenset({80, 443})
    """Also those that an entry of `hosts` names; None: any port."""
    private: bool = False
    """Addresses that are not on the internet: 10.0.0.0/8, 192.168.0.0/16, fc00::/7 and the like."""
    loopback: bool = False
    """This machine itself."""
    redirects: int = 0
    """How many a GET may follow; each is checked like the first URL. A POST follows none."""
    body_max_bytes: int = 1024 * 1024
    total_s: float = 10.0
    """For everything: names, connections, redirects and the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A URL that was read and found permissible, apart from its addresses."""

    url: str
    scheme: str
    host: str
    """Lower case, without brackets and without a final dot."""
    port: int
    path: str
    """With the query."""
    address: Address | None = None
    """The host, if it is an address."""

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: str, rules: OutboundRules) -> Target | Problem:
    """Read a URL; a problem if it is malformed, ambiguous or not allowed. Its host is not resolved yet."""
    if len(url) > URL_MAX:
        return _refused(f"the URL is longer than {URL_MAX} characters", "use a shorter one")
    if _UNSAFE.search(url) or not _is_printable(url):
        what = "the URL contains spaces, control characters or characters outside ASCII"
        return _refused(what, "percent-encode them; write an international host name in its xn-- form")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return _refused(f"{_short(url)} is not a valid URL", "use e.g. https://hooks.example.com/fairpool")
    scheme = parts.scheme
    if scheme not in rules.schemes or not url.lower().startswith(f"{scheme}://"):
        said = " or ".join(f"{each}://" for each in sorted(rules.schemes, reverse=True))
        return _refused(f"{_short(url)} does not begin with {said}", f"use a URL that begins with {said}")
    if "@" in parts.netloc:
        return _refused("the URL contains a user name or password", "remove the part before @")
    host = _host(parts)
    if isinstance(host, Problem):
        return host
    target = Target(
        url=url,
        scheme=scheme,
        host=host,
        port=DEFAULT_PORTS[scheme] if port is None else port,
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        address=_address(host),
    )
    return _not_allowed(target, rules) or target


def hosts_problem(hosts: Sequence[str]) -> Problem | None:
    """What is wrong with a list of hosts that an administrator typed."""
    for each in hosts:
        host, port = _entry(each)
        name = host.removeprefix("*.")
        bad_port = port is not None and not 0 < port < 65536
        if (
            bad_port
            or name != name.lower()
            or isinstance(_host_name(name), Problem)
            or (host != name and "." not in name)
        ):
            what = f"{_short(each)} is not a valid host"
            return _refused(what, "use e.g. hooks.example.com, *.example.com or hooks.example.com:8443")
    return None


def address_problem(host: str, address: Address, rules: OutboundRules) -> Problem | None:
    """Why the server must not connect to an address, if it must not. Says nothing about the address itself: the answer
    would tell a user what names mean inside the network."""
    if _is_allowed_address(address, rules):
        return None
    return Problem(
        "outbound.address",
        f"{host} does not have an address that this server may connect to",
        "use a public host, or ask an administrator",
    )


def is_allowed_redirect(here: Target, there: Target) -> bool:
    """Whether an answer may send the request on: never from https to http."""
    return not (here.scheme == "https" and there.scheme == "http")


def _host(parts: SplitResult) -> str | Problem:
    netloc = parts.netloc.lower()
    if netloc.startswith("["):
        inside, _, rest = netloc[1:].partition("]")
        try:
            address = IPv6Address(inside)
        except ValueError:
            return _refused(f"[{_short(inside)}] is not a valid IPv6 address", "use a host name")
        if address.scope_id is not None or (rest and not re.fullmatch(r":[0-9]{1,5}", rest)):
            return _refused(f"[{_short(inside)}] is not a valid host", "use a host name")
        return str(address)
    name, colon, port = netloc.partition(":")
    if colon and not re.fullmatch(r"[0-9]{1,5}", port):
        return _refused(f"{_short(netloc)} is not a valid host and port", "use e.g. hooks.example.com:8443")
    return _host_name(name)


def _host_name(name: str) -> str | Problem:
    """A name, or an IPv4 address in its usual notation. Others (2130706433, 0177.0.0.1, 0x7f.1, 127.1) are read in
    different ways by different programs."""
    name = name.removesuffix(".")
    labels = name.split(".")
    if not name or len(name) > HOST_MAX or not all(_LABEL.fullmatch(each) for each in labels):
        return _refused(f"{_short(name)} is not a valid host name", "use e.g. hooks.example.com")
    if _NUMBER.fullmatch(labels[-1]) and not isinstance(_address(name), IPv4Address):
        return _refused(f"{_short(name)} is not a valid IPv4 address", "use four decimal numbers, or a host name")
    return name


def _address(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _not_allowed(target: Target, rules: OutboundRules) -> Problem | None:
    ports = rules.ports
    if rules.hosts is not None:
        fitting = [port for host, port in map(_entry, rules.hosts) if _matches(target.host, host)]
        if not fitting:
            return Problem(
                "outbound.host",
                f"{target.host} is not one of the hosts that this server may connect to",
                "ask an administrator to allow it",
            )
        named = {port for port in fitting if port is not None}
        if None not in fitting:
            ports = frozenset(named)
        elif ports is not None:
            ports = ports | named
    if target.port == 0 or (ports is not None and target.port not in ports):
        return Problem(
            "outbound.port",
            f"this server may not connect to port {target.port} of {target.host}",
            "use one of " + ", ".join(map(str, sorted(ports or DEFAULT_PORTS.values()))),
        )
    return None if target.address is None else address_problem(target.host, target.address, rules)


def _entry(text: str) -> tuple[str, int | None]:
    host, colon, port = text.strip().partition(":")
    if not colon:
        return host, None
    return host, int(port) if re.fullmatch(r"[0-9]{1,5}", port) else -1


def _matches(host: str, entry: str) -> bool:
    """`*.example.com` is every host below example.com, and not itself."""
    if entry.startswith("*."):
        return host.endswith(entry[1:]) and len(host) > len(entry) - 1
    return host == entry.removesuffix(".")


def _is_allowed_address(address: Address, rules: OutboundRules) -> bool:
    if address in METADATA:
        return False
    if isinstance(address, IPv6Address):
        if address.is_loopback:
            return rules.loopback
        if address in _NAT64:
            return _is_allowed_address(IPv4Address(int(address) & 0xFFFFFFFF), rules)
        if any(address in each for each in _CARRIERS) or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
            return False
    if address.is_link_local or address.is_multicast or address.is_unspecified or _is_reserved(address):
        return False
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    if address.is_loopback:
        return rules.loopback
    if not address.is_global or address.is_private or (isinstance(address, IPv4Address) and address in _SHARED):
        return rules.private
    return True


def _is_reserved(address: Address) -> bool:
    """0.0.0.0/8 reaches this machine on Linux; 240.0.0.0/4 and the broadcast address reach whatever is configured."""
    if isinstance(address, IPv4Address):
        return address.is_reserved or int(address) >> 24 == 0
    return address.is_reserved


def _is_printable(url: str) -> bool:
    return url.isascii() and url.isprintable()


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def _refused(what: str, fix: str) -> Problem:
    return Problem("outbound.url", what, fix)
