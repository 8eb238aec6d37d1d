"""The user of the program at the other end of a connection within this machine, from the kernel's tables.

Pods may listen on ports of the machine (`--host-network`, and where they have no network of their own). While Fairpool
is stopped, one could take its port and collect tokens and passwords, so a client looks before it sends any.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress

from fairpool.model.ids import PROJECT_UIDS

TABLE, TABLE_6 = "/proc/net/tcp", "/proc/net/tcp6"
MAPPED = b"\0" * 10 + b"\xff\xff"
"""An IPv4 address, as a socket for IPv6 has it."""
LISTENING = "0A"


def job_user(connection: socket.socket) -> int | None:
    """The uid of the other end if it is a project's, so that a pod listens there; None: it is not, or unknown."""
    uid = peer_user(connection)
    return uid if uid in PROJECT_UIDS and uid != os.getuid() else None


def peer_user(connection: socket.socket) -> int | None:
    """The uid of what listens where this connection leads; None: unknown, as for a port that the kernel redirects."""
    with suppress(OSError, ValueError, IndexError):
        if connection.family == socket.AF_INET6:
            return _user_in(TABLE_6, connection, socket.AF_INET6, b"")
        found = _user_in(TABLE, connection, socket.AF_INET, b"")
        return found if found is not None else _user_in(TABLE_6, connection, socket.AF_INET, MAPPED)
    return None


def _user_in(table: str, connection: socket.socket, family: int, prefix: bytes) -> int | None:
    def written(place: tuple[str, int]) -> str:
        return f"{_hex(prefix + socket.inet_pton(family, place[0].partition('%')[0]))}:{place[1]:04X}"

    own, peer = written(connection.getsockname()[:2]), written(connection.getpeername()[:2])
    address, _, port = peer.partition(":")
    listeners = (peer, f"{'0' * len(address)}:{port}")
    with open(table, encoding="ascii") as rows:
        for row in rows:  # those that listen come first
            _, local, remote, state, _, _, _, uid, *_ = row.split(None, 8)
            # Also the connection itself: its program may have stopped to listen when it had accepted it.
            if (state == LISTENING and local in listeners) or (local, remote) == (peer, own):
                return int(uid)
    return None


def _hex(address: bytes) -> str:
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(address) // 4}I", address))
