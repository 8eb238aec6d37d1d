"""Declared workloads: the desired state that a user submits.

Which pods exist because of a declaration is decided by the cluster (`cluster/expand.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from fairpool.model.array import Array
from fairpool.model.ids import Instant, PoolName, QueueId, WorkloadId
from fairpool.model.workload import PodShape, TopologyConstraint, WorkloadKind

DEFAULT_GRACE_S = 30


class DesiredState(StrEnum):
    """The desired state of a workload."""

    RUN = "run"
    STOP = "stop"
    """Its pods are stopped; the workload stays and can be resumed."""
    DELETE = "delete"


class Arrangement(StrEnum):
    """How the pods of a workload are grouped for scheduling."""

    TOGETHER = "together"
    """One pod group: all of them, or at least the minimum, start at once."""
    SWEEP = "sweep"
    """Independent runs, a number of them at a time, until as many as asked have succeeded."""
    REPLICAS = "replicas"
    """Equal servers, each a pod group of its own."""


class RestartPolicy(StrEnum):
    """Which pods that end by themselves are replaced."""

    NEVER = "never"
    ON_FAILURE = "on failure"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class RestartRule:
    """Whether and how often a pod that ended is replaced: what the workload's kind implies, unless declared."""

    restart: RestartPolicy
    retries: int | None
    """None: without end."""


RESTART_RULES: Mapping[WorkloadKind, RestartRule] = MappingProxyType(
    {
        WorkloadKind.TRAIN: RestartRule(RestartPolicy.ON_FAILURE, 6),
        WorkloadKind.BUILD: RestartRule(RestartPolicy.ON_FAILURE, 0),
        WorkloadKind.INFERENCE: RestartRule(RestartPolicy.ALWAYS, None),
    }
)


class AccessMode(StrEnum):
    """Which pods may mount a volume claim at the same time, and whether they may write."""

    ONE_NODE = "rwo"
    """Pods of one node may write (ReadWriteOnce)."""
    READ_ONLY = "rom"
    """Only the workload that created it may write (ReadOnlyMany)."""
    SHARED = "rwm"
    """Pods of all nodes may write (ReadWriteMany)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitClone:
    """A Git repository that is cloned for a pod before its program starts."""

    repository: str
    branch: str = ""
    """Empty: the remote's default branch."""
    revision: str = ""
    """A commit or tag; empty: the tip of the branch."""
    timeout_s: int = 600
    size_bytes: int = 10 << 30
    """What the clone may take up on the disk."""


class Framework(StrEnum):
    """What the pods of a distributed run are programs of; decides how they find each other."""

    PYTORCH = "PyTorch"
    MPI = "MPI"
    """Pod 0 is the launcher, and is started when its workers run."""
    TF = "TF"
    XGBOOST = "XGBoost"
    JAX = "JAX"


class CleanPodPolicy(StrEnum):
    """What happens to the pods of a distributed run when it has completed or failed."""

    RUNNING = "Running"
    """Those that run are stopped; the output of all is kept."""
    ALL = "All"
    """Those that run are stopped; the output of all is removed."""
    NONE = "None"
    """Those that run keep running, until they end or the workload is suspended, deleted or out of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedRun:
    """How the pods of a workload work together."""

    framework: Framework = Framework.PYTORCH
    slots_per_worker: int = 1
    """MPI: processes that a worker takes."""
    clean_pods: CleanPodPolicy = CleanPodPolicy.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A folder or file a pod sees at `target`: one of the machine, a claim that pods of its project share, the folder
    that was uploaded with its workload, a cloned repository, the files of a config map, or an empty folder."""

    target: str
    source: str = ""
    """A path on the machine; empty where something else is meant."""
    claim: str = ""
    read_only: bool = False
    uploaded: bool = False
    """The workload's uploaded folder: one writable copy, shared by its pods, removed with the workload."""
    access: AccessMode = AccessMode.SHARED
    """Of a claim."""
    git: GitClone | None = None
    """Cloned for each pod anew, writable."""
    files: tuple[tuple[str, str], ...] = ()
    """Of a config map: names and contents, as they were at the submit."""

    @property
    def is_of_machine(self) -> bool:
        """Whether it is a path of the machine that a user has named."""
        return not (self.claim or self.uploaded or self.git is not None or self.files or self.secret or self.empty)

    secret: str = ""
    """A credential: each of its keys is a file, in memory, readable by the pod alone."""
    credential: str = ""
    """The credential that is needed to get at what is mounted: a login, an access key."""
    empty: bool = False
    """A folder for this pod alone, empty at its start."""
    size_bytes: int = 0
    """Of a claim that the cluster is to provide: its size. 0: it exists already, or has none."""
    storage_class: str = ""
    """Of such a claim; empty: the cluster's default class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretVariable:
    """An environment variable whose value is one key of a credential, looked up where the pod starts."""

    name: str
    credential: str
    key: str


class Exposure(StrEnum):
    """How a port of a workload is reached, beyond port forwarding."""

    CLUSTER_IP = "ClusterIP"
    """By the workload's name, from other pods of the cluster."""
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"
    INGRESS = "Ingress"
    """Through the gateway, or through the cluster's ingress controller where one is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePort:
    """A port of a workload's pods, as others reach it."""

    port: int
    exposure: Exposure = Exposure.CLUSTER_IP
    external: int | None = None
    """Of a node port or a load balancer: the number outside."""


class PullPolicy(StrEnum):
    """When the image of a pod is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityContext:
    """The user and the privileges of a pod in a container; the node refuses what its administrator has not allowed."""

    uid: int | None = None
    """None: the user of its project."""
    gid: int | None = None
    groups: tuple[int, ...] = ()
    """Supplementary groups."""
    image_user: bool = False
    """The user that the image names, instead of that of the project."""
    directory_user: bool = False
    """Uid, gid and groups are those that an identity provider gave the submitter."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities without the prefix: `NET_ADMIN`."""
    host_network: bool = False
    host_ipc: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What runs in a pod. Only the engine reads it, never the scheduler."""

    image: str = ""
    command: tuple[str, ...] = ()
    """Instead of what the image starts by itself; empty: that."""
    arguments: tuple[str, ...] = ()
    """After the command, or after what the image starts by itself, instead of the image's own."""
    environment: tuple[tuple[str, str], ...] = ()
    working_dir: str = ""
    volumes: tuple[Volume, ...] = ()
    tty: bool = False
    """Its output is a terminal, and it can be attached to."""
    stdin: bool = False
    """Its standard input stays open for `runai attach`; otherwise it reads nothing."""
    cpu_limit_milli: int = 0
    """Never more than this; 0: no limit. What it is guaranteed is in the shape."""
    memory_limit_bytes: int = 0
    shm_bytes: int = 0
    """Size of a `/dev/shm` of its own; 0: whatever is there."""
    python_env: str = ""
    """A virtual environment of the machine that its `python` is of; empty: none."""
    submitter_uid: int | None = None
    """The machine's user that submitted it, where it is known."""
    host_roots: tuple[str, ...] = ("/",)
    """Paths of the machine are mounted only if they lie in one of these directories, whatever their names."""
    ports: tuple[int, ...] = ()
    """Where it takes connections. A pod with ports has a network of its own where the runtime can give it one."""
    pull_policy: PullPolicy | None = None
    """None: always for an image without a tag or with the tag `latest`, otherwise only if it is missing."""
    security: SecurityContext = SecurityContext()
    secrets: tuple[SecretVariable, ...] = ()
    image_credential: str = ""
    """The registry credential that its image is pulled with; empty: the one for the image's registry, if there is one
    in the project's scope."""
    services: tuple[ServicePort, ...] = ()
    """How its ports are reached in clusters that have services of their own."""

    @property
    def credentials(self) -> frozenset[str]:
        """The names of all credentials that it refers to."""
        mounted = (name for volume in self.volumes for name in (volume.secret, volume.credential))
        named = (*(each.credential for each in self.secrets), *mounted, self.image_credential)
        return frozenset(name for name in named if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """What every pod made from it is like."""

    shape: PodShape = PodShape()
    program: Program = Program()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A workload that has to end before another one starts."""

    workload: WorkloadId
    name: str
    """For people: what it was called when it was named."""
    any_end: bool = False
    """It may also have failed or been deleted; otherwise it has to complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """One workload as declared."""

    id: WorkloadId
    name: str
    project: QueueId
    created_at: Instant
    kind: WorkloadKind = WorkloadKind.TRAIN
    template: PodTemplate = PodTemplate()
    leader: PodTemplate | None = None
    """The template of pod 0, where one pod leads the others."""
    arrangement: Arrangement = Arrangement.TOGETHER
    pods: int = 1
    """Wanted at once, the leader included: workers, parallelism or replicas."""
    minimum: int | None = None
    """Fewer than `pods` are enough to run (an elastic workload); None: all are needed."""
    completions: int | None = None
    """Of a sweep: how many pods must succeed. None: as many as run at once."""
    priority: int | None = None
    preemptible: bool | None = None
    restart: RestartPolicy | None = None
    retries: int | None = None
    """Failures after which it is retried; None: what the kind implies."""
    deadline_s: int | None = None
    """How long it may run, from its first start."""
    ttl_s: int | None = None
    """How long it is kept after it finished; None: until deleted."""
    grace_s: int = DEFAULT_GRACE_S
    """Between SIGTERM and SIGKILL."""
    pools: tuple[PoolName, ...] = ()
    """Node pools to try, in this order; empty: the default pool."""
    constraint: TopologyConstraint | None = None
    desired_state: DesiredState = DesiredState.RUN
    run: int = 0
    """Rises each time it is resumed: failures and clocks begin anew."""
    after: tuple[Dependency, ...] = ()
    """Its pods are created when all of these have ended. They were declared before it, so there are no cycles."""
    array: Array | None = None
    """Of a sweep: how its runs differ. None: they are alike but for their number."""
    distributed: DistributedRun | None = None
    """Of distributed training that is more than plain PyTorch."""

    @property
    def restart_rule(self) -> RestartRule:
        implied = RESTART_RULES[self.kind]
        return RestartRule(
            self.restart or implied.restart, self.retries if self.retries is not None else implied.retries
        )

    @property
    def is_elastic(self) -> bool:
        return self.minimum is not None and self.minimum < self.pods

    @property
    def needed(self) -> int:
        """Pods without which it does not run."""
        if self.arrangement is not Arrangement.TOGETHER:
            return 1
        return min(self.minimum, self.pods) if self.minimum is not None else self.pods

    @property
    def runs_needed(self) -> int:
        """Of a sweep: runs that must succeed."""
        return self.completions if self.completions is not None else self.pods

    @property
    def has_launcher(self) -> bool:
        """Whether pod 0 starts processes in the others, and has to be started last."""
        is_mpi = self.distributed is not None and self.distributed.framework is Framework.MPI
        return is_mpi and self.leader is not None

    def template_of(self, index: int) -> PodTemplate:
        return self.leader if index == 0 and self.leader is not None else self.template

    def program_of(self, index: int) -> Program:
        """What one pod runs: for the runs of a sweep, with their number and their values filled in."""
        program = self.template_of(index).program
        if self.arrangement is not Arrangement.SWEEP:
            return program
        array = self.array or Array(ranges=((0, self.runs_needed - 1, 1),))
        own = {
            "JOB_COMPLETION_INDEX": str(index),
            "FAIRPOOL_ARRAY_INDEX": str(array.number(index)),
            "FAIRPOOL_ARRAY_COUNT": str(self.runs_needed),
        }
        if self.array is None:
            return replace(program, environment=tuple((dict(program.environment) | own).items()))
        filled = {name: array.filled(value, index) for name, value in program.environment}
        return replace(
            program,
            command=tuple(array.filled(word, index) for word in program.command),
            arguments=(*(array.filled(word, index) for word in program.arguments), *array.arguments_of(index)),
            environment=tuple((filled | own).items()),
        )
