"""Rules for pods in containers: privileges that an administrator can allow, and what no container can be given. Pure.

The node applies them when it starts a pod. The control plane applies them at submit, to what nodes report that they
allow, so that a workload that every node would refuse is not queued.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum

from fairpool.model.problem import Problem
from fairpool.model.spec import Program, SecurityContext

LINE_MAX = 60_000
"""Of a variable: the tools read them from a file, line by line."""
CAPABILITY = re.compile(r"(?:CAP_)?([A-Z][A-Z_]{1,30})")
VARIABLE = re.compile(r"[^\s#=][^\s=]*")
ROOT_ONLY = "docker"
"""The runtime whose capabilities have an effect for root only."""
ROOT = frozenset(("", "0", "root"))
"""Users of an image that are root."""
AS_A_FILE = "store it in a config map or a secret, and mount that as a file"


class Privilege(StrEnum):
    """What an administrator can allow to the pods of a node."""

    HOST_NETWORK = "host-network"
    HOST_IPC = "host-ipc"
    USER = "user"
    CAPABILITIES = "capabilities"


def container_objection(program: Program) -> Problem | None:
    """Why no container can run this, whatever is allowed."""
    if program.python_env:
        what = "a Python environment of the machine cannot be used in a container"
        fix = "use an image that contains the packages, or mount the path with -v"
        return Problem("python_env.container", what, fix)
    return variable_objection(program.environment)


def variable_objection(variables: Iterable[tuple[str, str]]) -> Problem | None:
    """The tools read variables from a file in which each is one line. They would also take them from their own
    environment, but there a variable could change what the tool itself does, as root."""
    for name, value in variables:
        if not VARIABLE.fullmatch(name):
            what = f"the environment variable {name!r} cannot be passed to a container"
            return Problem("environment.name", what, "use letters, digits and _ in its name")
        if "\n" in value or "\r" in value:
            what = f"the value of {name} has several lines, which cannot be passed to a container"
            return Problem("environment.lines", what, AS_A_FILE)
        if len(value.encode(errors="surrogateescape")) > LINE_MAX:
            what = f"the value of {name} is longer than {LINE_MAX} bytes, which cannot be passed to a container"
            return Problem("environment.long", what, AS_A_FILE)
    return None


def privilege_objection(
    program: Program, allowed: Collection[Privilege], *, is_gang: bool, runtime: str, image_user: str = ""
) -> Problem | None:
    """The first privilege it asks for that containers are not given; `image_user` is the user that the image names."""
    security = program.security
    if is_gang and Privilege.HOST_NETWORK not in allowed:
        what = (
            "the pods of a distributed run reach each other on the network of their node, which containers may not use"
        )
        fix = f"ask the administrator to start the node with --allow-privilege {Privilege.HOST_NETWORK.value}"
        return Problem("runtime.distributed", what, fix)
    if security.host_network and Privilege.HOST_NETWORK not in allowed:
        what = "containers may not use the network of their node"
        return Problem("security.host_network", what, _ask_for(Privilege.HOST_NETWORK))
    if security.host_ipc and Privilege.HOST_IPC not in allowed:
        what = "containers may not use the IPC namespace of their node"
        return Problem("security.host_ipc", what, _ask_for(Privilege.HOST_IPC))
    if security.directory_user and not _is_complete(security):
        return _incomplete()
    if is_another_user(security, program.submitter_uid) and Privilege.USER not in allowed:
        return user_refused()
    return _capability_objection(security, allowed, runtime, image_user)


def _capability_objection(
    security: SecurityContext, allowed: Collection[Privilege], runtime: str, image_user: str
) -> Problem | None:
    named = security.capabilities
    if wrong := next((each for each in named if not CAPABILITY.fullmatch(each)), None):
        return Problem("security.capability", f"{wrong!r} is not a Linux capability", "use a name such as NET_ADMIN")
    if named and Privilege.CAPABILITIES not in allowed:
        what = f"containers may not have capabilities ({', '.join(named)})"
        return Problem("security.capabilities", what, _ask_for(Privilege.CAPABILITIES))
    is_root = image_user.partition(":")[0] in ROOT if security.image_user else security.uid == 0
    if named and runtime == ROOT_ONLY and not is_root:
        what = f"{runtime} gives capabilities to root only ({', '.join(named)})"
        return Problem("security.capabilities", what, "remove them, run it as root, or ask for nodes with podman")
    return None


def is_another_user(security: SecurityContext, submitter: int | None) -> bool:
    """Whether it runs as neither the user of its project nor the user who submitted it."""
    if security.directory_user:
        return False  # the control plane knows the submitter from an identity provider
    is_submitter = submitter is not None and security.uid == submitter
    is_named = security.uid is not None or security.gid is not None
    return security.image_user or bool(security.groups) or (is_named and not is_submitter)


def _is_complete(security: SecurityContext) -> bool:
    """Whether it names a user and a group, and root nowhere: the control plane has checked it, and this is cheap."""
    return bool(security.uid and security.gid) and 0 not in security.groups and not security.image_user


def process_objection(program: Program, *, can_choose_user: bool) -> Problem | None:
    """Why no process of a node without containers can run this. `can_choose_user`: processes there run as users
    of their own, and not all as the user of the server."""
    if not program.security.directory_user:
        return None
    if not can_choose_user:
        what = "processes run as the user of the server there, not with the uid and gid of a directory"
        fix = "remove uidGidSource, or ask for nodes that run containers, or on which Fairpool runs as root"
        return Problem("security.directory_user", what, fix)
    return None if _is_complete(program.security) else _incomplete()


def _incomplete() -> Problem:
    what = "the directory gives no user that a pod can run as"
    return Problem("security.directory_user", what, "submit it again")


def user_refused() -> Problem:
    what = "containers run as the user of their project, not as another user or the image's own"
    return Problem("security.user", what, _ask_for(Privilege.USER))


def _ask_for(privilege: Privilege) -> str:
    return f"remove it, or ask the administrator to start the node with --allow-privilege {privilege.value}"
