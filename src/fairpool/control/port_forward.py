"""WebSocket route for connections to ports of pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from starlette.websockets import WebSocket

from fairpool.api.shell import Channel, Frame, ended
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.pod_access import PodAccessError, PortStream
from fairpool.control.pods import pod_address
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused
from fairpool.control.routes import Parameter, Routes
from fairpool.control.shells import talk

routes = Routes("streams")


@routes.websocket("/api/v1/workloads/{workload_id}/port-forward", action=Action.WORKLOAD_UPDATE)
async def forward_port(
    socket: WebSocket,
    workload_id: str,
    plane: Plane,
    caller: Caller,
    port: Annotated[int, Parameter(ge=1, le=65535)],
    pod: Annotated[str | None, Parameter(max_length=256)] = None,
) -> None:
    """One connection to a port that a process of the pod listens on; frames as for a command."""
    address = await pod_address(plane, caller, workload_id, pod, Action.WORKLOAD_UPDATE, running=True)
    try:
        stream = await plane.pod_access.of(address.cluster).open_port(address, port)
    except PodAccessError as error:
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error
    action = ActionResult(entity_type="workload", entity_id=workload_id, entity_name=f"{address.pod}:{port}")
    try:
        await plane.note(socket, caller, replace(action, action="open-port"))
        await socket.accept()
        await talk(socket, plane, workload_id, PortSession(stream))
    finally:
        await stream.close()
        await plane.note(socket, caller, replace(action, action="close-port"))


class PortSession:
    """A connection to a port, in the frames of a shell: input, output, and the end of either."""

    def __init__(self, stream: PortStream) -> None:
        self._stream = stream
        self._is_over = False

    async def send(self, frame: Frame) -> None:
        if frame.channel is Channel.INPUT:
            await self._stream.send(frame.data)
        elif frame.channel is Channel.CLOSE:
            await self._stream.end()

    async def receive(self) -> Frame | None:
        if self._is_over:
            return None
        data = await self._stream.receive()
        if data is not None:
            return Frame(Channel.OUTPUT, data)
        self._is_over = True
        return ended(0)

    async def close(self) -> None:
        await self._stream.close()
