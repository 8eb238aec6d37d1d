"""The agent's state directory: its layout, and what is created in it before anything else."""

from __future__ import annotations

import errno
import os
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairpool.agent.durable import sync_directory, write_durably
from fairpool.agent.environment import PodPaths
from fairpool.agent.isolation import PodUser
from fairpool.agent.order_file import StoredOrder
from fairpool.agent.peers import HOSTFILE_NAME, Rendezvous, free_ports, hostfile, is_free_port, is_mpi, ports_needed
from fairpool.agent.pod_directory import directory_name
from fairpool.agent.project_users import chown_tree
from fairpool.agent.volume_files import make_own_volumes
from fairpool.model.ids import PodId, WorkloadId
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem

REPORT = ".fairpool-report.json"
"""In a pod's home: where the job reports its metrics and parameters."""


class UnknownInstallation(Exception):
    """The id of the installation that this directory belongs to cannot be read, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The paths in one installation's state directory."""

    root: Path

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    @property
    def logs(self) -> Path:
        """Output of pods that were forgotten."""
        return self.root / "logs"

    @property
    def scratch(self) -> Path:
        """Homes of pods: not in the pod directories, where a careless `../` would meet the files of the shim."""
        return self.root / "scratch"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def rendezvous_files(self) -> Path:
        return self.root / "rendezvous"

    @property
    def gangs(self) -> Path:
        """Sockets of the workers of MPI, a directory for each run."""
        return self.root / "gangs"

    @property
    def trash(self) -> Path:
        """What pods left behind, until it is removed."""
        return self.root / "trash"

    @property
    def support(self) -> Path:
        """In a directory of ours alone: pods, which have users of their own, see this one and what is in it."""
        return self.root / "support" / "files"

    @property
    def claims(self) -> Path:
        """Volume claims, by project."""
        return self.root / "claims"

    @property
    def uploads(self) -> Path:
        """Directories that were submitted with a workload, by its id."""
        return self.root / "uploads"

    @property
    def warm_up_directory(self) -> Path:
        """Where the fork server runs pods that do nothing, as deep as real ones."""
        return self.root / "warm-up" / "pod"

    def prepare(self) -> uuid.UUID:
        """Create what is missing; returns this installation's id, which is unique on the machine.

        Raises `UnknownInstallation`.
        """
        own = [self.pods, self.logs, self.scratch, self.trash, self.claims, self.uploads]
        own += [self.warm_up_directory.parent, self.support.parent, self.checkpoints, self.rendezvous_files, self.gangs]
        self.root.parent.mkdir(parents=True, exist_ok=True)
        for directory in (self.root, *own):
            directory.mkdir(exist_ok=True, mode=0o700)
            if directory.stat().st_mode & 0o077:
                with suppress(PermissionError):
                    directory.chmod(0o700)  # earlier versions relied on the parent directory's mode
        return self._installation_id()

    def _installation_id(self) -> uuid.UUID:
        """Pods are found by it: while there are any, an unreadable one is not replaced by another."""
        file = self.root / "installation"
        try:
            return uuid.UUID(file.read_text(encoding="ascii").strip())
        except (OSError, ValueError) as error:
            if any(self.pods.iterdir()):
                what = f"{file} cannot be read ({error}); without it the pods in {self.pods} cannot be found"
                fix = f"restore it from a backup; if no pods are running, move {self.pods} away and start again"
                raise UnknownInstallation(Problem("machine.unidentified", what, fix)) from error
        write_durably(file, f"{uuid.uuid4()}\n".encode())
        return uuid.UUID(file.read_text(encoding="ascii").strip())

    def pod_directory(self, pod: PodId) -> Path:
        return self.pods / directory_name(pod)

    def log_directory(self, pod: PodId) -> Path | None:
        """Where a pod's output is, if there is any."""
        candidates = (self.pod_directory(pod), self.logs / directory_name(pod))
        return next((path for path in candidates if path.is_dir()), None)

    def paths(self, order: StartOrder) -> PodPaths:
        root, name, run = str(self.root), directory_name(order.pod), workload_name(order.workload)
        # Runs of a sweep save separately; the pods of one run save together.
        is_shared = order.together or order.pods == 1
        return PodPaths(
            directory=f"{root}/pods/{name}",
            support=f"{root}/support/files",
            checkpoints=f"{root}/checkpoints/{run}" if is_shared else f"{root}/checkpoints/{run}/{order.index}",
            reporter=f"file:{root}/scratch/{name}/{REPORT}",
            home=f"{root}/scratch/{name}",
            gang=f"{root}/gangs/{run}.{order.run}" if is_mpi(order) else "",
        )

    def rendezvous(self, order: StartOrder, *, is_first: bool = False) -> Rendezvous | None:
        """Where the pods of a distributed run meet, by ports that were free for the first; None: they do not.

        `is_first`: none of them runs, so that a port that was taken meanwhile can be replaced by another.
        """
        needed = ports_needed(order)
        if not needed:
            return None
        file = self.rendezvous_files / f"{workload_name(order.workload)}.{order.run}"
        ports = _ports_in(file)
        if is_first and not all(map(is_free_port, ports)):
            ports = ()
        if len(ports) < needed:  # the first of them, a damaged file, or a run that has grown
            taken = {port for each in self.rendezvous_files.iterdir() if each != file for port in _ports_in(each)}
            ports = (*ports, *free_ports(needed - len(ports), taken | set(ports)))
            write_durably(file, " ".join(map(str, ports)).encode())
        return Rendezvous(ports)

    def set_aside_claims(self, project: str, kept_as: str) -> None:
        """Move the claims of an earlier project of this name away. They are kept, but no pod can mount them."""
        directory = self.claims_of(project)
        if not directory.is_dir():
            return
        kept = self.claims_of(kept_as)
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        directory.rename(kept)
        sync_directory(self.claims)

    def claims_of(self, project: str) -> Path:
        """The directory of a project's claims; with a dot in its name, of a deleted one whose claims were set aside."""
        name = project.replace("/", "_")
        if name.strip(".") == "":
            raise OSError(errno.EINVAL, f"{project!r} is not the name of a project")
        return (self.root / "claims-set-aside" if "." in name else self.claims) / name

    def discard_claim(self, project: str, name: str) -> None:
        """Move a claim with its data to the trash, from which it is removed. May be called twice."""
        if "/" in name or name.strip(".") == "":
            raise OSError(errno.EINVAL, f"{name!r} is not the name of a claim")
        with suppress(FileNotFoundError):
            (self.claims_of(project) / name).rename(self.trash / f"claim.{time.time_ns()}")
            sync_directory(self.claims_of(project))


def workload_name(workload: WorkloadId) -> str:
    """A workload's id as the name of a directory."""
    return directory_name(PodId(workload))


def make_pod_directories(stored: StoredOrder, paths: PodPaths) -> None:
    """Create a pod's home and the checkpoint directory of its workload, owned by its user."""
    with suppress(FileExistsError):  # a server was killed before it wrote the order
        os.mkdir(paths.home, 0o700)
    os.makedirs(paths.checkpoints, exist_ok=True)
    if paths.gang:
        os.makedirs(paths.gang, exist_ok=True)
        os.chmod(paths.gang, 0o755)  # for the users of its pods; the directory above is ours alone
        Path(paths.home, HOSTFILE_NAME).write_text(hostfile(stored.order), encoding="ascii")
    view = stored.launch.get("view") if stored.launch is not None else None
    user = PodUser(*view["user"]) if view is not None and view["user"] is not None else None
    make_own_volumes(stored.order.program.volumes, paths, user)
    if user is not None:
        for directory in (paths.home, paths.checkpoints):
            chown_tree(directory, user)


def _ports_in(file: Path) -> tuple[int, ...]:
    try:
        return tuple(map(int, file.read_text(encoding="ascii").split()))
    except (OSError, ValueError):
        return ()
