"""WebSocket routes for shells in pods: exec and attach."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from starlette.websockets import WebSocket, WebSocketDisconnect

from fairpool.api import shell
from fairpool.control.guard import still_known
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.pod_access import PodAccessError, ShellSession
from fairpool.control.pods import REVOKED, pod_address, while_allowed
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Parameter, Routes
from fairpool.model.problem import Problem

routes = Routes("streams")


COMMAND_MAX = 256

FIRST_MESSAGE_S = 10.0

POLICY = 1008
"""Close code of a WebSocket whose caller lost the permission."""


@routes.websocket(
    "/api/v1/workloads/{workload_id}/exec",
    action=Action.WORKLOAD_UPDATE,
)
async def run_command(
    socket: WebSocket,
    workload_id: str,
    plane: Plane,
    caller: Caller,
    command: Annotated[list[str] | None, Parameter(max_length=COMMAND_MAX)] = None,
    pod: Annotated[str | None, Parameter(max_length=256)] = None,
    tty: bool = False,
    follows: Annotated[bool, Parameter(alias="commandFollows")] = False,
) -> None:
    """A command in the pod; frames are described in `fairpool.api.shell`."""
    if follows and not command:
        await _converse(socket, plane, caller, workload_id, pod, None, tty)
        return
    if not command:
        raise refused(422, "shell.no_command", "no command was given", "add one, e.g. ?command=bash")
    await _converse(socket, plane, caller, workload_id, pod, tuple(command), tty)


@routes.websocket(
    "/api/v1/workloads/{workload_id}/attach",
    action=Action.WORKLOAD_UPDATE,
)
async def attach(
    socket: WebSocket,
    workload_id: str,
    plane: Plane,
    caller: Caller,
    pod: Annotated[str | None, Parameter(max_length=256)] = None,
    tty: bool = False,
) -> None:
    """The pod's main process."""
    await _converse(socket, plane, caller, workload_id, pod, (), tty)


async def _converse(
    socket: WebSocket,
    plane: Plane,
    caller: Caller,
    workload_id: str,
    pod: str | None,
    command: tuple[str, ...] | None,
    tty: bool,
) -> None:
    """`command`: empty for the main process, None if it comes with the first message."""
    address = await pod_address(plane, caller, workload_id, pod, Action.WORKLOAD_UPDATE, running=True)
    try:
        words = await _first_message(socket) if command is None else command
        if command is None:  # which may have come seconds later
            now = await still_known(plane, caller)
            address = await pod_address(plane, now, workload_id, pod, Action.WORKLOAD_UPDATE, running=True)
        end = await plane.pod_access.of(address.cluster).open_shell(address, words, tty)
    except PodAccessError as error:
        if command is None:
            await _close_with(socket, str(error.problem))
            return
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error
    except Refused as refusal:
        if command is None:
            await _close_with(socket, refusal.message)
            return
        raise
    except (WebSocketDisconnect, KeyError, RuntimeError):
        return  # the user disconnected, or sent text
    shell_action = ActionResult(entity_type="workload", entity_id=workload_id, entity_name=address.pod)
    try:
        await plane.note(socket, caller, replace(shell_action, action="open-shell"))
        if command is not None:
            await socket.accept()
        await talk(socket, plane, workload_id, end)
    finally:
        await end.close()
        await plane.note(socket, caller, replace(shell_action, action="close-shell"))


async def _first_message(socket: WebSocket) -> tuple[str, ...]:
    """The command, if it is too long for the URL; raises `PodAccessError`."""
    await socket.accept()
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            words = shell.command_in(await socket.receive_bytes())
    except TimeoutError:
        what = f"no command was received within {FIRST_MESSAGE_S:g} s"
        raise PodAccessError(Problem("shell.no_command", what, "send it as the first message")) from None
    if isinstance(words, Problem):
        raise PodAccessError(words)
    return words


async def talk(socket: WebSocket, plane: Plane, workload_id: str, end: ShellSession) -> None:
    """Until one side disconnects, or the caller loses the permission."""
    there = asyncio.create_task(_to_pod(socket, end))
    back = asyncio.create_task(_to_user(socket, end))
    revoked = asyncio.create_task(while_allowed(plane, socket.state.caller, workload_id, Action.WORKLOAD_UPDATE))
    tasks = (there, back, revoked)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_revoked = revoked.done()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if is_revoked:
        await _close_with(socket, REVOKED)


async def _close_with(socket: WebSocket, words: str) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):  # already disconnected
        await socket.send_bytes(shell.ended(None, words).encode())
        await socket.close(POLICY, REVOKED if words == REVOKED else "")


async def _to_pod(socket: WebSocket, end: ShellSession) -> None:
    while True:
        try:
            frame = shell.decode_shell_frame(await socket.receive_bytes())
        except (WebSocketDisconnect, KeyError, RuntimeError):
            return  # the user disconnected, or sent text
        if isinstance(frame, Problem):
            return
        await end.send(frame)


async def _to_user(socket: WebSocket, end: ShellSession) -> None:
    while (frame := await end.receive()) is not None:
        await socket.send_bytes(frame.encode())
    await socket.close()
