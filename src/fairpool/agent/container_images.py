"""Images of containers: looked up on the machine, pulled in the background, and kept for the pods that wait for them.

A pull takes long or fails, so it never holds up the supervisor: a pod whose image is on its way is planned again when
the pull has ended. One that cannot be pulled is reported and not tried again here; the cluster starts another pod after
its back-off. Methods are called with the supervisor's lock held; only the pulls run in threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairpool.agent.container_launch import ContainerImage, ContainerSettings
from fairpool.agent.container_tool import DOCKER
from fairpool.model.image_name import DEFAULT_REGISTRY, is_reference, qualified, registry_of, tag_of
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.secret import UserLogin
from fairpool.model.spec import PullPolicy

PULL_S, LOOK_UP_S = 3600.0, 60.0
BAD_NAME = "image.name"
OLDER_NAME = "https://index.docker.io/v1/"
"""Under which docker keeps the login for the registry without a name."""
PULLS_MAX, LOOK_UPS_MAX = 4, 4
"""At a time: they share one disk and one network. An image that is there does not wait for pulls, which may hang."""
TemporaryDirectories = Callable[[], AbstractContextManager[str]]
"""Makes one, for its owner only, and removes it afterwards."""
RESULTS_MAX = 1000
REASON_MAX = 400


@dataclass(frozen=True, slots=True)
class Pulling:
    """An image that is on its way."""

    words: str


class ContainerImages:
    """The images of this machine."""

    def __init__(
        self,
        settings: ContainerSettings,
        on_change: Callable[[], None],
        login_of: Callable[[StartOrder, str], UserLogin | None],
        temporary: TemporaryDirectories,
    ) -> None:
        """`on_change` is called from other threads when a pull has ended, `login_of` when an image is pulled: the login
        that an order has for a registry. It raises OSError if that cannot be looked up. The tool reads it in a
        `temporary` directory in memory."""
        self._settings, self._on_change, self._login_of = settings, on_change, login_of
        self._temporary = temporary
        self._pulls: dict[tuple[str, ...], _Pull] = {}
        self._pull_slots, self._look_up_slots = threading.Semaphore(PULLS_MAX), threading.Semaphore(LOOK_UPS_MAX)
        self._changed = threading.Event()

    def has_changed(self) -> bool:
        """Whether a pull has ended since the last call."""
        was_set = self._changed.is_set()
        self._changed.clear()
        return was_set

    def find(self, order: StartOrder) -> ContainerImage | Pulling | Problem:
        """The image of an order, as far as it is known by now."""
        name = order.program.image
        if not is_reference(name):
            what = f"{name!r} is not a valid image name"
            return Problem(BAD_NAME, what, "expected e.g. python:3.12 or registry.example.com:5000/team/image:tag")
        policy = order.program.pull_policy or default_policy(name)
        # With Always each pod has a pull of its own; otherwise pods of one project that ask for the same share one.
        program = order.program
        key: tuple[str, ...] = (name, order.project, program.working_dir, policy, program.image_credential)
        key = (*key, order.pod) if policy is PullPolicy.ALWAYS else key
        pull = self._pulls.get(key)
        if pull is None:
            self._make_room()
            pull = self._pulls[key] = _Pull(lambda: self._obtain(order, policy), self._ended)
        if pull.result is None:
            return Pulling(f"pulling image {name}")
        if policy is not PullPolicy.ALWAYS or isinstance(pull.result, Problem):
            del self._pulls[key]  # the next pod looks again: the image may have been removed, or added
        return pull.result

    def _ended(self) -> None:
        self._changed.set()
        self._on_change()

    def _make_room(self) -> None:
        if len(self._pulls) >= RESULTS_MAX:  # of pods that were stopped meanwhile
            self._pulls = {key: pull for key, pull in self._pulls.items() if pull.result is None}

    # --- in threads

    def _obtain(self, order: StartOrder, policy: PullPolicy) -> ContainerImage | Problem:
        name = order.program.image
        found = self._found(order)
        if policy is PullPolicy.NEVER and found is None:
            what = f"image {name} is not on node {order.node}, and its pull policy is Never"
            return Problem("image.never", what, "load it there, or use the pull policy IfNotPresent")
        if found is not None and policy is not PullPolicy.ALWAYS:
            return found
        with self._pull_slots:
            problem = self._pull(order)
        return (
            problem
            or self._found(order)
            or Problem("image.unknown", f"image {name} was pulled and is gone again", "try again")
        )

    def _found(self, order: StartOrder) -> ContainerImage | None:
        """The image of an order, if it is on this machine."""
        with self._look_up_slots:
            image = self._look_up(order.program.image)
            return self._with_working_dir(image, order) if image is not None else None

    def _with_working_dir(self, image: ContainerImage, order: StartOrder) -> ContainerImage:
        """Look whether the image has the working directory, for tools that do not create it."""
        wanted = order.program.working_dir or image.working_dir
        if self._settings.tool.makes_working_dir or not wanted:
            return image
        mounted = self._run("image", "mount", image.id, timeout_s=LOOK_UP_S)
        if mounted.returncode != 0:
            return image
        try:
            return replace(image, lacks_working_dir=not _exists_in(mounted.stdout.strip(), wanted))
        finally:
            self._run("image", "unmount", image.id, timeout_s=LOOK_UP_S)

    def _look_up(self, name: str) -> ContainerImage | None:
        answer = self._run("image", "inspect", qualified(name), timeout_s=LOOK_UP_S)
        return read_image(name, answer.stdout) if answer.returncode == 0 else None

    def _pull(self, order: StartOrder) -> Problem | None:
        name, tool = order.program.image, self._settings.tool
        registry, login = registry_of(qualified(name)), None
        try:
            login = self._login_of(order, registry)
        except OSError as error:
            if order.program.image_credential:
                what = f"image {name} cannot be pulled: {error.strerror or error}"
                return Problem("image.credential", what, "check the credential that the job names")
        try:
            with signed_in(tool.name, registry, login, self._temporary) as (before, after):
                answer = self._run(
                    *before, "pull", "--quiet", *after, tool.reference.format(image=qualified(name)), timeout_s=PULL_S
                )
        except OSError as error:
            what = f"image {name} cannot be pulled with a login: {error}"
            return Problem("image.credential", what, "ask the administrator of the node")
        if answer.returncode == 0:
            return None
        why = _reason(answer.stderr, login)
        fix = "check its name and tag, and that the node can reach its registry; a private one needs a credential"
        return Problem("image.pull", f"image {name} cannot be pulled: {why}", fix)

    def _run(self, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return run_tool(self._settings, arguments, timeout_s)


class _Pull:
    def __init__(
        self,
        obtain: Callable[[], ContainerImage | Problem],
        on_end: Callable[[], None],
    ) -> None:
        self.result: ContainerImage | Problem | None = None
        self._obtain, self._on_end = obtain, on_end
        threading.Thread(target=self._work, name="image pull", daemon=True).start()

    def _work(self) -> None:
        try:
            self.result = self._obtain()
        except Exception as error:  # whatever it is, the pod is told
            self.result = Problem("image.pull", f"its image cannot be looked up: {error}", "try again")
        self._on_end()


def run_tool(
    settings: ContainerSettings, arguments: Sequence[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run the tool to its end. One that takes too long is killed, and counts as failed."""
    command = [settings.path, *arguments]
    try:
        return subprocess.run(
            command,
            env=dict(settings.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            cwd="/",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no answer within {timeout_s:.0f} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"{settings.path}: {error.strerror}")


def default_policy(image: str) -> PullPolicy:
    """As in Kubernetes: what is called latest changes."""
    return PullPolicy.ALWAYS if tag_of(image) == "latest" else PullPolicy.IF_NOT_PRESENT


def read_image(name: str, text: str) -> ContainerImage | None:
    """From the answer of `image inspect`; None if there is none."""
    try:
        (about,) = json.loads(text)
        config = about.get("Config") or {}
        pairs = (each.partition("=") for each in config.get("Env") or ())
        return ContainerImage(
            id=str(about["Id"]).removeprefix("sha256:"),
            name=name,
            entrypoint=_words(config.get("Entrypoint")),
            command=_words(config.get("Cmd")),
            environment=tuple((key, value) for key, _, value in pairs),
            working_dir=str(config.get("WorkingDir") or ""),
            user=str(config.get("User") or ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(word) for word in value or ())


@contextmanager
def signed_in(
    tool: str, registry: str, login: UserLogin | None, temporary: TemporaryDirectories
) -> Iterator[tuple[list[str], list[str]]]:
    """Options before and after `pull` for this login; the file they name is removed afterwards. Raises OSError."""
    if login is None:
        yield [], []
        return
    with temporary() as directory:
        file = Path(directory, "config.json")
        file.touch(0o600)
        file.write_text(json.dumps(login_file(registry, login)), encoding="utf-8")
        yield ([f"--config={directory}"], []) if tool == DOCKER else ([], [f"--authfile={file}"])


def login_file(registry: str, login: UserLogin) -> Mapping[str, Any]:
    """The file in which both tools keep logins."""
    pair = b64encode(f"{login.user}:{login.password}".encode()).decode()
    hosts = (registry, OLDER_NAME) if registry == DEFAULT_REGISTRY else (registry,)
    return {"auths": {host: {"auth": pair} for host in hosts}}


def _reason(text: str, login: UserLogin | None) -> str:
    """The last line of what the tool wrote, without its habits and without the password."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = lines[-1] if lines else "no reason was given"
    if login is not None and login.password:
        line = line.replace(login.password, "***")
    for prefix in ("Error: ", "Error response from daemon: "):
        line = line.removeprefix(prefix)
    return line[-REASON_MAX:]


def _exists_in(root: str, directory: str) -> bool:
    """Whether a directory is there, without following links, which may lead out of the image; one counts as there."""
    path = root
    for part in directory.strip("/").split("/"):
        path = f"{path}/{part}"
        if os.path.islink(path):
            return True
        if not os.path.isdir(path):
            return False
    return True
