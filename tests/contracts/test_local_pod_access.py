"""Reading a pod's log through the platform: what was rotated away is marked."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from fairpool.agent.pod_log import LogChunk
from fairpool.agent.supervisor import Supervisor
from fairpool.control.pod_access import LogRange, PodAddress
from fairpool.platform.local_pod_access import LocalPodAccess


class Rotating:
    """A supervisor whose pod wrote faster than its follower read: bytes 4 to 10 are gone."""

    def __init__(self) -> None:
        self.chunks = [
            LogChunk(offset=0, data=b"abc\n", next_offset=4, is_complete=False),
            LogChunk(offset=10, data=b"k\n", next_offset=12, is_complete=True),
            LogChunk(offset=12, data=b"", next_offset=12, is_complete=True),
        ]

    def read_log(self, pod: str, **wanted: Any) -> LogChunk:
        return self.chunks.pop(0)


def test_a_follower_that_was_too_slow_sees_where_output_is_missing() -> None:
    async def read() -> bytes:
        pod_access = LocalPodAccess(cast(Supervisor, Rotating()))
        wanted = LogRange(0, None, None, False)
        pieces = [
            piece.data async for piece in pod_access.read_log(PodAddress("local", "p", None, "w"), wanted, follow=True)
        ]
        pod_access.close()
        return b"".join(pieces)

    assert asyncio.run(read()) == b"abc\n\n[fairpool: 6 bytes of output were rotated away]\nk\n"
