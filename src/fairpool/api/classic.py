"""Legacy API: jobs, projects, users and audit entries with their older field names.

Programs written for it find their paths and fields here; new features are only in the current API.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from fairpool.api.access import Email, NewPassword
from fairpool.api.limits import TENANT_ID
from fairpool.api.pod_spec import (
    ARGUMENTS_MAX,
    ENVIRONMENT_MAX,
    ENVIRONMENT_VALUE_MAX,
    Argument,
    GpuAmount,
    Pairs,
    Quantity,
)
from fairpool.api.wire import Answer, LongText, Moment, PoolNameText, ProjectName, Request, ShortText
from fairpool.api.workload_spec import PODS_MAX

Assignment = Annotated[
    str, StringConstraints(max_length=ENVIRONMENT_VALUE_MAX, pattern=r"^[^\x00]*$"), Field(examples=["EPOCHS=3"])
]
Mount = Annotated[
    str, StringConstraints(max_length=4096, pattern=r"^[^\x00-\x1f]*$"), Field(examples=["/raid/data:/data:ro"])
]


class ClassicSubmit(Request):
    """`POST /researcher/api/v1/jobs`: the flags of `runai submit`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "hyper1",
                    "project": "team-a",
                    "image": "quickstart",
                    "gpu": 0.5,
                    "environment": ["EPOCHS=3"],
                    "volumes": ["/raid/data:/data:ro"],
                }
            ]
        }
    )
    name: Annotated[str, StringConstraints(max_length=256)] | None = None
    job_name_prefix: Annotated[str, StringConstraints(max_length=256)] | None = None
    project: ProjectName
    image: ShortText = ""
    image_pull_policy: Annotated[str, StringConstraints(pattern="^(Always|IfNotPresent|Never)$")] | None = None
    interactive: StrictBool = Field(default=False, description="Interactive workspace if true, training if false")
    command: Annotated[list[Argument], Field(max_length=ARGUMENTS_MAX)] | LongText | None = None
    args: Annotated[list[Argument], Field(max_length=ARGUMENTS_MAX)] | LongText | None = None
    environment: Annotated[list[Assignment], Field(max_length=ENVIRONMENT_MAX)] = Field(default_factory=list)
    working_dir: LongText | None = None
    gpu: GpuAmount | None = None
    gpu_memory: Quantity | None = None
    mig_profile: ShortText | None = None
    cpu: Annotated[StrictInt | StrictFloat, Field(ge=0, le=100_000)] | None = None
    cpu_limit: Annotated[StrictInt | StrictFloat, Field(ge=0, le=100_000)] | None = None
    memory: Quantity | None = None
    memory_limit: Quantity | None = None
    large_shm: StrictBool | None = None
    volumes: Annotated[list[Mount], Field(max_length=64)] = Field(default_factory=list)
    pvcs: Annotated[list[Mount], Field(max_length=64, examples=[["claim:/data"]])] = Field(default_factory=list)
    node_type: ShortText | None = None
    node_pools: Annotated[list[PoolNameText], Field(max_length=64)] = Field(default_factory=list)
    preemptible: StrictBool | None = None
    backoff_limit: Annotated[StrictInt, Field(ge=0, le=100_000)] | None = None
    completions: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    parallelism: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] | None = None
    ttl_after_finish: Annotated[StrictInt, Field(ge=0, le=315_360_000, description="Seconds")] | None = None
    labels: Pairs = Field(default_factory=dict)
    annotations: Pairs = Field(default_factory=dict)
    host_ipc: StrictBool | None = None
    host_network: StrictBool | None = None
    stdin: StrictBool | None = None
    tty: StrictBool | None = None
    wait_anyway: StrictBool = Field(
        default=False, description="Queue it even if it cannot start with the current nodes and quotas"
    )


class ClassicJob(Answer):
    """A job, as in a row of `runai list jobs`."""

    id: str
    name: str
    project: str
    user: str
    status: Annotated[str, Field(examples=["Running"])]
    type: Annotated[str, Field(examples=["Train"])]
    image: str = ""
    node: str = ""
    requested_gpus: float = 0.0
    allocated_gpus: float = 0.0
    running_pods: int = 0
    pending_pods: int = 0
    service_urls: list[str] = Field(default_factory=list)
    message: str = ""
    created_at: Moment
    cluster_id: str = ""


class ClassicJobName(Request):
    """The name and project of a job."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "hyper1", "project": "team-a"}]})
    name: ShortText
    project: ShortText


class ClassicError(Answer):
    """An error."""

    status: int
    message: str
    details: str = ""


class ClassicOutcome(Answer):
    """The result for one job."""

    name: str
    ok: bool
    error: ClassicError | None = None


class ClassicProject(Answer):
    """A project, in the format of the legacy API."""

    name: str
    department_name: str
    deserved_gpus: float
    interactive_job_time_limit_secs: int | None = None
    interactive_node_affinity: list[str] = Field(default_factory=list)
    train_node_affinity: list[str] = Field(default_factory=list)


class ClassicUser(Request):
    """`POST /v1/k8s/users`. Fields that are not supported are refused unless they have their default value."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"email": "ann@example.com", "password": "correct horse", "roles": ["researcher"]}]
        }
    )
    email: Email
    username: ShortText | None = None
    name: ShortText | None = None
    password: NewPassword | None = None
    roles: Annotated[list[ShortText], Field(max_length=16)] = Field(default_factory=list)
    permitted_clusters: Annotated[list[ShortText], Field(max_length=64)] = Field(default_factory=list)
    permit_all_clusters: StrictBool = True
    need_to_change_password: StrictBool = True


class DepartmentAdminsRequest(Request):
    """`PUT …/departments/{department_id}/access-control`: the users who administer a department."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"departmentAdmins": ["ann@example.com"]}]})
    department_id: ShortText | Annotated[StrictInt, Field(ge=0, le=2**53)] | None = None
    """The one of the path, if any."""
    department_admins: Annotated[list[ShortText], Field(max_length=1000)]


class DepartmentAdmins(Answer):
    """The users who administer a department."""

    department_id: int
    department_admins: Annotated[list[str], Field(description="Email addresses")]


class ClassicGroup(Answer):
    """A group of an identity provider that access rules name."""

    user_id: Annotated[str, Field(description="Its name")]
    entity_type: str = "group"
    tenant_id: int = TENANT_ID
    roles: Annotated[list[str], Field(description="Those that its members have over everything")]


class ClassicAuditEntry(Answer):
    """An audit log entry, in the format of the legacy API."""

    happened_at: Moment
    action: Annotated[str, Field(examples=["Login"])]
    entity_type: str
    entity_name: str
    source_type: str
    source_name: str
    context: dict[str, Any] = Field(default_factory=dict)
