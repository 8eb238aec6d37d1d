"""A WebSocket that carries the frames of a multiplexer: between a cluster and its control plane, and between the
processes of one control plane."""

from __future__ import annotations

import asyncio
import logging

from websockets.asyncio.connection import Connection
from websockets.exceptions import WebSocketException

from fairpool.api.multiplexer import Multiplexer, ProtocolError

log = logging.getLogger("fairpool.cluster")

PROTOCOL = 1002
"""Close code: the other side broke the rules."""
REASON_MAX = 100


async def carry_frames(socket: Connection, streams: Multiplexer) -> str:
    """Until one side ends the connection; returns why it ended. The caller breaks the streams off."""
    sending = asyncio.create_task(streams.send_all(socket.send))
    receiving = asyncio.create_task(_receive(socket, streams))
    try:
        await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
        reason = receiving.result() if receiving.done() else "the connection was lost"
        if receiving.done() and socket.close_code is None:
            await socket.close(PROTOCOL, reason[:REASON_MAX])
        return reason
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)


async def _receive(socket: Connection, streams: Multiplexer) -> str:
    try:
        async for message in socket:
            if isinstance(message, str):
                return "the control plane sent text"
            streams.received(message)
    except ProtocolError as error:
        log.warning("the control plane broke the rules of the tunnel: %s", error)
        return str(error)
    except WebSocketException:
        pass
    return socket.close_reason or "the connection was lost"
