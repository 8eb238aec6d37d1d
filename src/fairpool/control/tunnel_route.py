"""WebSocket route for the tunnels of clusters.

The cluster connects with its token, as for pull and push. Its tunnel ends when the token is revoked, when the cluster
connects again, or when it sends what the protocol does not allow.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect

from fairpool.api.multiplexer import Multiplexer, ProtocolError
from fairpool.api.tunnel import PATH, SUBPROTOCOLS
from fairpool.control.guard import still_known
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Routes
from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.control")

routes = Routes("clusters")

LOOK_AGAIN_S = 5.0
POLICY, PROTOCOL, REPLACED = 1008, 1002, 4000
"""Close codes of the WebSocket; the last is our own."""
REASON_MAX_BYTES = 120
CLOSE_S = 2.0


@routes.websocket(PATH, action=Action.LINK)
async def tunnel(socket: WebSocket, plane: Plane, caller: Caller) -> None:
    """Logs, shells, ports, uploads and questions of one cluster; `fairpool.api.multiplexer` describes the frames."""
    spoken = [each for each in SUBPROTOCOLS if each in socket.scope["subprotocols"]]
    if not spoken:
        offered = ", ".join(socket.scope["subprotocols"])[:200] or "none"
        what = f"the cluster speaks {offered}, and this control plane {', '.join(SUBPROTOCOLS)}"
        raise refused(400, "tunnel.version", what, "upgrade the control plane first, then its clusters")
    await socket.accept(spoken[0])
    connection = Multiplexer()
    plane.pod_access.tunnels.join(caller.id, connection)
    log.info("cluster connected", extra={"fields": {"cluster": caller.name}})
    code, reason = 1001, ""
    try:
        code, reason = await _serve(socket, plane, connection)
    finally:
        plane.pod_access.tunnels.leave(caller.id, connection)
        connection.break_off(_LOST)
        log.info("cluster disconnected", extra={"fields": {"cluster": caller.name, "reason": reason}})
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):  # already disconnected, or it does not read
            async with asyncio.timeout(CLOSE_S):
                await socket.close(code, _short(reason))


async def _serve(socket: WebSocket, plane: Plane, connection: Multiplexer) -> tuple[int, str]:
    """Until the connection ends; its close code and the reason."""
    receiving = asyncio.create_task(_receive(socket, connection))
    sending = asyncio.create_task(connection.send_all(socket.send_bytes))
    revoked = asyncio.create_task(_while_known(plane, socket.state.caller))
    replaced = asyncio.create_task(connection.ended())
    tasks = (receiving, sending, revoked, replaced)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if revoked.done():
            return POLICY, "the token of this cluster was revoked"
        if replaced.done():
            return REPLACED, "the cluster has connected again"
        return receiving.result() if receiving.done() else (1001, "")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _receive(socket: WebSocket, connection: Multiplexer) -> tuple[int, str]:
    try:
        while True:
            connection.received(await socket.receive_bytes())
    except ProtocolError as error:
        log.warning("a cluster broke the rules of its tunnel: %s", error)
        return PROTOCOL, str(error)
    except KeyError:
        return PROTOCOL, "a message is text"
    except (WebSocketDisconnect, RuntimeError):
        return 1000, ""


async def _while_known(plane: Plane, caller: Caller) -> None:
    """Returns when the token is no longer valid. Any change of tokens empties the cache of callers."""
    while True:
        listening = plane.notifier.listen()
        try:
            await still_known(plane, caller)
        except Refused:
            listening.cancel()
            return
        await plane.notifier.wait(listening, LOOK_AGAIN_S)


_LOST = Problem("tunnel.lost", "the connection to the cluster was lost", "try again when it is connected")


def _short(reason: str) -> str:
    return reason.encode()[:REASON_MAX_BYTES].decode(errors="ignore")
