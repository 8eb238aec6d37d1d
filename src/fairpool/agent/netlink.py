"""Netlink messages that set up a network namespace: interfaces, addresses, routes, and redirection of connections.

Written here because `ip` and `nft` are not on every machine, and starting them would cost more than all of this.
Applies to the network namespace of the calling process. Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

NETLINK_ROUTE, NETLINK_NETFILTER = 0, 12
_REQUEST, _ACK, _CREATE = 1, 4, 0x400
_ERROR = 2
_NEW_LINK, _NEW_ADDRESS, _NEW_ROUTE = 16, 20, 24
_UP = 1
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = 0xA00, 0xA03, 0xA06
_NESTED = 0x8000
_LOCAL_OUT, _DESTINATION_NAT = 3, -100
_REGISTER = 1
_EQUAL, _UNEQUAL = 0, 1
_PROTOCOL_OF_PACKET = 16
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
TABLE, CHAIN = b"fairpool\0", b"output\0"
LOOPBACK = 1
"""The index of `lo` in every namespace."""

Conditions = list[bytes]


class Netlink:
    """A socket to the kernel. Every method raises OSError if the kernel refuses."""

    def __init__(self, protocol: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._sequence = 0

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def enable_loopback(self) -> None:
        body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, LOOPBACK, _UP, _UP)
        self._request([(_NEW_LINK, 0, body)])

    def add_address(self, family: int, address: str) -> None:
        """To the loopback interface, for this host alone."""
        packed = socket.inet_pton(family, address)
        body = struct.pack("=BBBBI", family, 8 * len(packed), 0, 0, LOOPBACK)
        self._request([(_NEW_ADDRESS, _CREATE, body + _attribute(1, packed) + _attribute(2, packed))])

    def deliver_everything_here(self, family: int) -> None:
        """A default route by which every address is this host: what no rule redirects is refused, and never leaves."""
        main_table, static, from_host, local = 254, 4, 254, 2
        body = struct.pack("=BBBBBBBBI", family, 0, 0, 0, main_table, static, from_host, local, 0)
        self._request([(_NEW_ROUTE, _CREATE, body + _attribute(4, struct.pack("=I", LOOPBACK)))])

    def redirect_output(self, family: int, rules: list[tuple[Conditions, int]]) -> None:
        """Redirect connections that begin in this namespace: conditions, and the local port that takes them instead."""
        hook = _attribute(1, struct.pack(">I", _LOCAL_OUT)) + _attribute(2, struct.pack(">i", _DESTINATION_NAT))
        chain = _attribute(1, TABLE) + _attribute(3, CHAIN) + _attribute(4, hook, _NESTED) + _attribute(7, b"nat\0")
        messages = [
            (_BATCH_BEGIN, 0, struct.pack(">BBH", 0, 0, 10)),
            (_NEW_TABLE, _CREATE | _ACK, _netfilter(family) + _attribute(1, TABLE)),
            (_NEW_CHAIN, _CREATE | _ACK, _netfilter(family) + chain),
        ]
        for conditions, port in rules:
            value = _attribute(1, struct.pack(">H", port))
            target = _immediate(value) + _expression(b"redir", _number(1, _REGISTER))
            body = _attribute(1, TABLE) + _attribute(2, CHAIN)
            body += _attribute(4, b"".join(conditions) + target, _NESTED)
            messages.append((_NEW_RULE, _CREATE | _ACK, _netfilter(family) + body))
        messages.append((_BATCH_END, 0, struct.pack(">BBH", 0, 0, 10)))
        self._request(messages)

    def _request(self, messages: list[tuple[int, int, bytes]]) -> None:
        """Send these at once, and wait until the kernel has accepted each."""
        packet, awaited = b"", set()
        is_batch = len(messages) > 1
        for kind, flags, body in messages:
            self._sequence += 1
            flags |= _REQUEST if is_batch else _REQUEST | _ACK
            if flags & _ACK:
                awaited.add(self._sequence)
            packet += struct.pack("=IHHII", 16 + len(body), kind, flags, self._sequence, 0) + body
        self._socket.send(packet)
        while awaited:
            for sequence, error in _answers(self._socket.recv(65536)):
                if error:
                    raise OSError(error, os.strerror(error))
                awaited.discard(sequence)


def protocol_is(number: int) -> Conditions:
    """TCP or UDP."""
    meta = _expression(b"meta", _number(1, _REGISTER) + _number(2, _PROTOCOL_OF_PACKET))
    return [meta, _compare(_EQUAL, bytes([number]))]


def destination_port_is(port: int) -> Conditions:
    return [_load(_TRANSPORT_HEADER, 2, 2), _compare(_EQUAL, struct.pack(">H", port))]


def destination_differs(family: int, prefix: bytes) -> Conditions:
    """The destination does not begin with these bytes."""
    offset = 16 if family == socket.AF_INET else 24
    return [_load(_NETWORK_HEADER, offset, len(prefix)), _compare(_UNEQUAL, prefix)]


def _answers(packet: bytes) -> Iterator[tuple[int, int]]:
    """Sequence numbers with their error, 0 if it was done."""
    while len(packet) >= 16:
        length, kind, _, sequence, _ = struct.unpack_from("=IHHII", packet)
        if kind == _ERROR:
            yield sequence, -struct.unpack_from("=i", packet, 16)[0]
        packet = packet[(length + 3) & ~3 :]


def _netfilter(family: int) -> bytes:
    return struct.pack(">BBH", family, 0, 0)


def _attribute(kind: int, data: bytes, flags: int = 0) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind | flags) + data + b"\0" * (-len(data) % 4)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack(">I", value))


def _expression(name: bytes, data: bytes) -> bytes:
    return _attribute(1, _attribute(1, name + b"\0") + _attribute(2, data, _NESTED), _NESTED)


def _load(header: int, offset: int, length: int) -> bytes:
    fields = _number(1, _REGISTER) + _number(2, header) + _number(3, offset) + _number(4, length)
    return _expression(b"payload", fields)


def _compare(operator: int, value: bytes) -> bytes:
    return _expression(
        b"cmp", _number(1, _REGISTER) + _number(2, operator) + _attribute(3, _attribute(1, value), _NESTED)
    )


def _immediate(value: bytes) -> bytes:
    return _expression(b"immediate", _number(1, _REGISTER) + _attribute(2, value, _NESTED))
