"""Plans the launch of a pod from its start order: program, working directory, mounts, limits.

The result is plain data for JSON, because the shim reads it from the pod directory and does not import the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairpool.agent.cgroup import Limiter
from fairpool.agent.clone_plan import clone_plan, clone_problem, file_of
from fairpool.agent.durable import read_regular
from fairpool.agent.environment import SECRET, PodPaths, variables
from fairpool.agent.images import Image
from fairpool.agent.isolation import (
    TEMPORARY,
    Isolation,
    PodUser,
    is_within,
    may_be_mounted,
    paths_in_pod,
    pod_view,
    user_name,
    volume_rule,
)
from fairpool.agent.nvml import Gpu
from fairpool.agent.peers import HOST_NAME_MAX, Rendezvous, is_mpi, mpi_host_name
from fairpool.agent.pod_secrets import SecretLookup, volume_place
from fairpool.agent.portion_enforcement import enforce_portion
from fairpool.agent.project_users import chown_tree
from fairpool.agent.root_filesystem import HOME, OWN
from fairpool.agent.uploads import Uploads
from fairpool.agent.volume_files import own_volume
from fairpool.model.ids import QueueId
from fairpool.model.observation import StartOrder
from fairpool.model.plain_path import normal_path
from fairpool.model.problem import Problem
from fairpool.model.spec import Volume

RESERVED = ("/proc", "/sys", "/dev", OWN)
"""Where no volume can be mounted: these are created for every pod."""
CONFIGURATION_MAX = 65_536
CLAIM_MODE = 0o2770
"""For the user and the group of its project only."""

Mounts = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRotation:
    """How much of a pod's output is kept."""

    segment_bytes: int = 16 << 20
    segments: int = 3


DEFAULT_ROTATION = LogRotation()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFeatures:
    """What this machine offers to every pod; determined once, at the start."""

    unavailable: Mapping[str, str]
    """`mounts`, `host_name`, …: why the system does not permit them."""
    limiter: Limiter
    claims: Path
    """The directory of volume claims, by project."""
    uploads: Uploads
    """Directories that were submitted with workloads."""
    isolation: Isolation
    claim_owner: Callable[[QueueId], PodUser] | None = None
    """The owner of a project's claims, where pods have users of their own."""
    rotation: LogRotation = DEFAULT_ROTATION
    secrets: SecretLookup = field(default_factory=SecretLookup)
    """Where the credentials that pods refer to are looked up."""

    @property
    def is_isolating(self) -> bool:
        return "isolation" not in self.unavailable

    @property
    def can_choose_user(self) -> bool:
        """Whether processes run as another user than the server."""
        return os.geteuid() == 0 and self.is_isolating


def plan_launch(
    order: StartOrder,
    image: Image,
    gpus: Sequence[Gpu],
    *,
    pod_uuid: str,
    paths: PodPaths,
    features: MachineFeatures,
    is_simulated: bool,
    rendezvous: Rendezvous | None,
    user: PodUser | None = None,
) -> dict[str, Any] | Problem:
    """Everything the shim needs, or why the pod cannot run here. Without a user it runs as the server's."""
    program, isolation = order.program, features.isolation
    mounts = _mounts(order, image, paths, features, user)
    if isinstance(mounts, Problem):
        return mounts
    seen = paths_in_pod(paths) if features.is_isolating else paths
    argv = _command_line(order, image, paths, seen)
    if not argv:
        return Problem("program.none", f"image {program.image} has no default command", "add a command after --")
    portion = enforce_portion(order.shape.gpu, gpus)
    env = variables(
        order,
        pod_uuid=pod_uuid,
        paths=seen,
        image=image,
        gpus=gpus,
        portion=portion,
        is_simulated=is_simulated,
        rendezvous=rendezvous,
        user_name=user_name(os.geteuid()) if user is None else user.name or user_name(user.uid),
        unseen=isolation.hidden if features.is_isolating else (),
    )
    cwd, mounts = _working_directory(order, image, paths, mounts, features)
    limits, unlimited = _limits(order, pod_uuid, features.limiter)
    unreachable = _shared_network(order, features)
    rule = _volume_rule(order, features, user)
    view = pod_view(isolation, paths, user, rule, program.shm_bytes)
    return {
        "pod": order.pod,
        "pod_uuid": pod_uuid,
        "argv": list(argv),
        "env": {name: value for name, value in env.items() if value != SECRET},
        "secrets": {"directory": paths.secrets, "variables": [name for name, value in env.items() if value == SECRET]}
        if paths.secrets
        else None,
        "cwd": cwd,
        "host_name": "" if "host_name" in features.unavailable else host_name(order),
        "mounts": mounts,
        "clones": _clones(order, paths, view, pod_uuid),
        "view": view if features.is_isolating else None,
        "network": has_own_network(order) and not unreachable,
        "tty": program.tty,
        "stdin": program.stdin,
        "grace_s": order.grace_s,
        "limits": limits,
        "gang": _gang_socket(order, paths),
        "log": asdict(features.rotation),
        "words": "; ".join(words for words in (portion.words, unlimited, unreachable) if words),
    }


def has_own_network(order: StartOrder) -> bool:
    """Whether the pod is to have a network of its own: it has ports, and need not reach other pods of its run."""
    return bool(order.program.ports) and not (order.together and order.pods > 1)


def _shared_network(order: StartOrder, features: MachineFeatures) -> str:
    """Why a pod that should have a network of its own has the machine's; empty: it has its own, or needs none."""
    why = features.unavailable.get("isolation") or features.unavailable.get("network")
    if not why or not has_own_network(order):
        return ""
    return f"its ports can be reached by every program on this machine ({why})"


def host_name(order: StartOrder) -> str:
    """The host name of a pod, as in the prompt `root@frac05-0-0`."""
    if is_mpi(order):
        return mpi_host_name(order.name, order.index)
    return f"{order.name}-{order.index}-{order.incarnation}"[-HOST_NAME_MAX:].lstrip("-")


def _gang_socket(order: StartOrder, paths: PodPaths) -> list[str] | None:
    """The directory and name of the socket through which an MPI launcher starts programs in this worker."""
    is_worker = bool(paths.gang) and order.index > 0
    return [paths.gang, mpi_host_name(order.name, order.index)] if is_worker else None


def _command_line(order: StartOrder, image: Image, paths: PodPaths, seen: PodPaths) -> tuple[str, ...]:
    """As in a container: a command replaces all that the image starts, arguments replace the image's command only."""
    program = order.program
    if program.command:
        return (*program.command, *program.arguments)
    own = (*image.entrypoint, *(() if program.arguments else image.command))
    return (*(_seen(word, paths, seen) for word in own), *program.arguments)


def _seen(word: str, paths: PodPaths, seen: PodPaths) -> str:
    """A word of an image that names a file of ours, as a path in the pod."""
    return seen.support + word[len(paths.support) :] if is_within(word, (paths.support,)) else word


def _mounts(
    order: StartOrder, image: Image, paths: PodPaths, features: MachineFeatures, user: PodUser | None
) -> Mounts | Problem:
    """What is mounted into the pod; empty when everything is already where it is wanted."""
    mounts: Mounts = []
    rule = _volume_rule(order, features, user) or {}
    for number, volume in enumerate(order.program.volumes):
        target, mode = normal_path(volume.target), "ro" if volume.read_only else "rw"
        if volume.secret:
            source = f"{paths.secrets}/{volume_place(number)}"
            mounts.append({"source": source, "target": target, "mode": "ro", "is_judged": False})
            continue
        if volume.uploaded and not features.is_isolating and "mounts" in features.unavailable:
            continue  # its program is started where the directory really is
        found = _source(order, volume, own_volume(paths, number), features, user, rule)
        if isinstance(found, Problem):
            return found
        mounts.append({"source": found, "target": target, "mode": mode, "is_judged": volume.is_of_machine})
    for target, source in image.files:
        if not os.path.exists(source):
            return Problem(
                "image.file_missing", f"{source} of image {image.name} does not exist", "fix its entry in images.toml"
            )
        mounts.append({"source": source, "target": normal_path(target), "mode": "ro"})
    environment = _python_env(order, rule)
    if isinstance(environment, Problem):
        return environment
    targets = [mount["target"] for mount in mounts]
    mounts += [each for each in environment if each["target"] not in targets]
    if order.program.shm_bytes and not features.is_isolating and not _shm_is_large_enough(order, features):
        mounts.append({"size": str(order.program.shm_bytes), "target": "/dev/shm", "mode": "rw"})
    if problem := _misplaced(targets, features):
        return problem
    if features.is_isolating:
        return mounts
    if all(mount.get("source") == mount["target"] and mount["mode"] == "rw" for mount in mounts):
        return []
    if why := features.unavailable.get("mounts"):
        return Problem(
            "runtime.no_mounts",
            f"mount namespaces are not permitted on this machine ({why}), so nothing can be mounted for {order.name}",
            "ask the administrator to enable user namespaces, or mount paths at their own location",
        )
    return mounts


def _volume_rule(order: StartOrder, features: MachineFeatures, user: PodUser | None) -> dict[str, Any] | None:
    """None for pods that mount nothing of the machine's: the rule takes a listing of all home directories."""
    program = order.program
    if not program.python_env and not any(_names_a_path(volume) for volume in program.volumes):
        return None
    return volume_rule(features.isolation, user, program.submitter_uid, program.host_roots)


def _names_a_path(volume: Volume) -> bool:
    """Whether it is filled from a path of the machine that a user has named."""
    return volume.is_of_machine or (volume.git is not None and bool(file_of(volume.git)))


def _clones(order: StartOrder, paths: PodPaths, view: Mapping[str, Any], pod_uuid: str) -> list[dict[str, Any]]:
    program = order.program
    return [
        clone_plan(
            volume,
            own_volume(paths, number),
            f"{paths.secrets}/{volume_place(number)}",
            pod_uuid=pod_uuid,
            environment=program.environment,
            view=view,
        )
        for number, volume in enumerate(program.volumes)
        if volume.git is not None
    ]


def _misplaced(targets: Sequence[str], features: MachineFeatures) -> Problem | None:
    if wrong := next((target for target in targets if not target.startswith("/") or target == "/"), None):
        return Problem("volume.target", f"a volume cannot be mounted at {wrong}", "use an absolute path other than /")
    if double := next((target for target in targets if targets.count(target) > 1), None):
        return Problem("volume.twice", f"two volumes are mounted at {double}", "use a different path for each")
    reserved = next((target for target in targets if is_within(target, RESERVED)), None)
    if reserved is not None and features.is_isolating:
        return Problem(
            "volume.target", f"{reserved} is reserved and cannot be a mount point", "mount it at another path"
        )
    return None


def _source(
    order: StartOrder,
    volume: Volume,
    own: str,
    features: MachineFeatures,
    user: PodUser | None,
    rule: Mapping[str, Any],
) -> str | Problem:
    """The path on the machine of what is mounted; `own` is the directory for a volume of this pod alone."""
    if volume.files or volume.empty:
        return own
    if volume.git is not None:
        path = file_of(volume.git)
        source = _checked_source(order, os.path.normpath(path), volume.target, rule) if path else own
        problem = clone_problem(volume.git, is_isolating=features.is_isolating)
        return problem or (source if isinstance(source, Problem) else own)
    if volume.uploaded:
        files = features.uploads.files_of(order.workload)
        if not files.is_dir():
            what = f"the directory uploaded for {order.name} is not on this machine"
            return Problem("upload.missing", what, "submit the job again with --workdir")
        if user is not None:
            chown_tree(str(files), user)
        return str(files)
    if volume.claim:
        if "/" in volume.claim or volume.claim in (".", ".."):
            return Problem("volume.claim_name", f"{volume.claim!r} is not a valid claim name", "use letters and digits")
        claim = features.claims / order.project.replace("/", "_") / volume.claim
        claim.mkdir(parents=True, exist_ok=True)
        if features.claim_owner is not None and user is not None:
            chown_tree(str(claim), features.claim_owner(order.project))
            claim.chmod(CLAIM_MODE)
        return str(claim)
    if not volume.source.startswith("/"):
        what = f"{volume.source or 'an empty path'} cannot be mounted at {volume.target}: it is not an absolute path"
        return Problem("volume.missing", what, "use an absolute path that exists")
    return _checked_source(order, os.path.normpath(volume.source), volume.target, rule)


def _checked_source(order: StartOrder, source: str, target: str, rule: Mapping[str, Any]) -> str | Problem:
    try:
        return may_be_mounted(source, rule) or source
    except OSError as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = f"it does not exist on {order.node}" if missing else str(error.strerror)
        what = f"{source} cannot be mounted at {target}: {why}"
        return Problem("volume.missing", what, "create it, or use an absolute path that exists")


def _python_env(order: StartOrder, rule: Mapping[str, Any]) -> Mounts | Problem:
    """Mounts of the virtual environment and of the interpreter it was created with, read-only, at their own paths."""
    path = order.program.python_env
    if not path:
        return []
    directory = os.path.normpath(path)
    if not path.startswith("/") or not os.path.lexists(f"{directory}/bin/python"):
        what = f"{path} is not a Python environment on {order.node}: it has no bin/python"
        return Problem("python_env.missing", what, f"create one with python -m venv {path}, or use another directory")
    found = []
    for place in (directory, *_interpreter_of(directory)):
        source = _checked_source(order, place, place, rule)
        if isinstance(source, Problem):
            return source
        found.append({"source": source, "target": source, "mode": "ro", "is_judged": True})
    return found


def _interpreter_of(environment: str) -> list[str]:
    """The prefix of a virtual environment's interpreter; empty, where it is the machine's own."""
    try:
        text = read_regular(f"{environment}/pyvenv.cfg", CONFIGURATION_MAX).decode(errors="replace")
    except OSError:
        return []
    rows = (line.partition("=") for line in text.splitlines())
    home = next((value.strip() for key, _, value in rows if key.strip() == "home"), "")
    prefix = os.path.dirname(os.path.normpath(home)) if home.startswith("/") else ""
    return [prefix] if prefix not in ("", "/", "/usr", "/usr/local") and os.path.isdir(prefix) else []


def _shm_is_large_enough(order: StartOrder, features: MachineFeatures) -> bool:
    """Where mounts are not permitted the machine's own will do, if it is as large."""
    if "mounts" not in features.unavailable:
        return False
    shm = os.statvfs("/dev/shm")
    return shm.f_blocks * shm.f_frsize >= order.program.shm_bytes


def _working_directory(
    order: StartOrder, image: Image, paths: PodPaths, mounts: Mounts, features: MachineFeatures
) -> tuple[str, Mounts]:
    """The requested directory, created for this pod alone if the machine has none or hides it."""
    wanted = order.program.working_dir or image.working_dir
    own = HOME if features.is_isolating else paths.home
    if not wanted:
        return own, mounts
    if not features.is_isolating and "mounts" in features.unavailable:
        wanted = _in_uploaded(order, wanted, features)
    covered = is_within(wanted, [mount["target"] for mount in mounts])
    if covered or not wanted.startswith("/") or _is_seen(wanted, features):
        return wanted, mounts
    if not features.is_isolating and "mounts" in features.unavailable:
        # The image's own directory is optional; if a user's own is missing, the start fails and says so.
        return (wanted if order.program.working_dir else own), mounts
    return wanted, [*mounts, {"source": paths.home, "target": os.path.normpath(wanted), "mode": "rw"}]


def _is_seen(directory: str, features: MachineFeatures) -> bool:
    """Whether a directory of the machine is visible to pods."""
    if not features.is_isolating:
        return os.path.isdir(directory)
    if directory in (HOME, *TEMPORARY):
        return True
    isolation = features.isolation
    is_hidden = is_within(directory, (*isolation.hidden, *TEMPORARY)) and not is_within(directory, isolation.kept)
    return not is_hidden and os.path.isdir(directory)


def _in_uploaded(order: StartOrder, wanted: str, features: MachineFeatures) -> str:
    """A path in the uploaded directory as a path of the machine."""
    for volume in order.program.volumes:
        if volume.uploaded and (wanted == volume.target or wanted.startswith(f"{volume.target}/")):
            return str(features.uploads.files_of(order.workload)) + wanted.removeprefix(volume.target)
    return wanted


def _limits(order: StartOrder, pod_uuid: str, limiter: Limiter) -> tuple[dict[str, Any] | None, str]:
    program = order.program
    if not program.cpu_limit_milli and not program.memory_limit_bytes:
        return None, ""
    if not limiter.is_able:
        return None, f"CPU and memory limits are not enforced: {limiter.missing}"
    limits = {
        "limiter": limiter.to_json(),
        "name": pod_uuid,
        "cpu_milli": program.cpu_limit_milli,
        "memory_bytes": program.memory_limit_bytes,
    }
    return limits, ""
