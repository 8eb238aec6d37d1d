"""The container runtime of a node: the tool it uses, the images it has, and containers that were left behind.

A shim removes the container of its pod. What is left when shims were killed or the machine was busy is found by its
label and removed here, every now and then and in a thread of its own.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fairpool.agent.container_images import ContainerImages, TemporaryDirectories, run_tool
from fairpool.agent.container_launch import ContainerSettings
from fairpool.agent.container_program import NETWORK_NAMESPACES, REMOVE_TRIES, forget_network
from fairpool.agent.container_tool import LABEL, NAME_PREFIX, PODMAN, TOOLS, container_name, tool_environment
from fairpool.agent.devices import PROCESS
from fairpool.agent.mounts import share
from fairpool.model.container_rules import Privilege
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.secret import UserLogin

RUNTIMES = (PROCESS, *TOOLS)
INITS = ("tini-static", "tini", "catatonit")
"""The first process of podman's containers: the best one that is installed. Docker brings its own."""
INSTALLATION_LENGTH = 18
CHECK_S, LIST_S, REMOVE_S = 60.0, 60.0, 120.0


def problem_with_runtime(name: str) -> Problem | None:
    """Why containers cannot be run with this tool on this machine; None: they can."""
    if name == PROCESS:
        return None
    tool = TOOLS[name]
    path = shutil.which(name)
    if path is None:
        what = f"--runtime {name}: there is no program {name} on this machine"
        return Problem("runtime.missing", what, f"install {tool.package}, or use --runtime {PROCESS}")
    if os.geteuid() != 0:
        what = f"--runtime {name} needs root: containers run as the users of their projects"
        return Problem("runtime.not_root", what, f"start Fairpool as root, or use --runtime {PROCESS}")
    if name == PODMAN and not _init_path(name):
        what = "--runtime podman: tini, the first process of every container, is not installed"
        return Problem("runtime.no_init", what, "install the package tini")
    answer = run_tool(_settings(name, path, ""), ("info", "--format", "{{.ID}}" if name != PODMAN else "json"), CHECK_S)
    if answer.returncode != 0:
        lines = answer.stderr.strip().splitlines() or ["no reason was given"]
        what = f"--runtime {name}: `{name} info` fails: {lines[-1].removeprefix('Error: ')}"
        return Problem("runtime.broken", what, f"see that `{name} info` works for root, or use --runtime {PROCESS}")
    return None


def _settings(name: str, path: str, installation: str, allowed: Collection[Privilege] = ()) -> ContainerSettings:
    return ContainerSettings(
        tool=TOOLS[name],
        path=path,
        environment=tool_environment(os.environ, str(Path.home())),
        installation=installation,
        allowed=frozenset(allowed),
        init_path=_init_path(name),
    )


def _init_path(name: str) -> str:
    found = (shutil.which(each) for each in INITS) if name == PODMAN else ()
    return next((path for path in found if path), "")


class ContainerRuntime:
    """One tool on this machine."""

    def __init__(
        self,
        name: str,
        installation: str,
        allowed: Collection[Privilege],
        *,
        on_change: Callable[[], None],
        alive: Callable[[], Collection[str]],
        login_of: Callable[[StartOrder, str], UserLogin | None],
        temporary: TemporaryDirectories,
    ) -> None:
        """`alive` returns the UUIDs of all pods that are not over; it is called from another thread."""
        path = shutil.which(name) or name
        self.settings = _settings(name, path, installation, allowed)
        self.images = ContainerImages(self.settings, on_change, login_of, temporary)
        self._alive = alive
        if self.settings.tool.is_local:
            share(NETWORK_NAMESPACES)
        self._collecting = threading.Lock()

    def collect(self) -> None:
        """Begin to remove containers that belong to no pod, unless that is being done."""
        if self._collecting.acquire(blocking=False):
            threading.Thread(target=self._collect, name="container collection", daemon=True).start()

    def _collect(self) -> None:
        try:
            # Listed before the pods are: a container that is created meanwhile is not in the list.
            names = [*self._listed(), *self._networks()]
            alive = {container_name(each) for each in self._alive()} if names else set()
            for name in names:
                if name not in alive:
                    self._remove(name)
        finally:
            self._collecting.release()

    def _remove(self, name: str) -> None:
        for _ in range(REMOVE_TRIES):
            if run_tool(self.settings, (*self.settings.tool.remove, name), REMOVE_S).returncode == 0:
                break
        with suppress(OSError):  # it is found again
            forget_network(name)

    def _networks(self) -> list[str]:
        """Names that are left of network namespaces; the UUIDs of our pods begin like the installation."""
        prefix = container_name(self.settings.installation[:INSTALLATION_LENGTH])
        found = os.listdir(NETWORK_NAMESPACES) if self.settings.tool.is_local else []
        return [name for name in found if name.startswith(prefix)]

    def _listed(self) -> list[str]:
        label = f"label={LABEL}={self.settings.installation}"
        arguments = ("ps", "--all", "--filter", label, "--format", "{{.Names}}")
        answer = run_tool(self.settings, arguments, LIST_S)
        names = answer.stdout.split() if answer.returncode == 0 else []
        return [name for name in names if name.startswith(NAME_PREFIX)]


def open_runtimes(
    names: Sequence[str],
    installation: str,
    allowed: Collection[Privilege],
    *,
    on_change: Callable[[], None],
    alive: Callable[[], Collection[str]],
    login_of: Callable[[StartOrder, str], UserLogin | None],
    temporary: TemporaryDirectories,
) -> Mapping[str, ContainerRuntime]:
    """The container runtimes among these."""
    return {
        name: ContainerRuntime(
            name, installation, allowed, on_change=on_change, alive=alive, login_of=login_of, temporary=temporary
        )
        for name in sorted(set(names) - {PROCESS})
    }
