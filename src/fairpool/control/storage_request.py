"""Storage of a submit: its volumes as they are declared, or everything that is wrong with them. Pure.

What is checked here by its name, the agent checks again by what it really is when it mounts (`agent/mount_source.py`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairpool.api import pod_spec
from fairpool.api import workload_spec as wire
from fairpool.api.limits import NAME_PATTERN
from fairpool.api.pod_spec import ENVIRONMENT_VALUE_MAX
from fairpool.api.problems import ProblemList
from fairpool.control.resource_request import bytes_of
from fairpool.model.git_address import git_problem
from fairpool.model.plain_path import normal_path
from fairpool.model.spec import AccessMode, GitClone, Volume

NAME = re.compile(NAME_PATTERN)
STORAGE_CLASS = "local"
"""The one class of claims that clusters without storage classes have: folders on the node's disk."""
CONFIG_BYTES_MAX = 512 * 1024
"""Contents of all config maps of one workload, mounted or as variables: they travel with it."""
PLACE = "spec.storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownClaim:
    """A volume claim of the project."""

    access: AccessMode = AccessMode.SHARED
    workload: str = ""
    """The id of the workload that it was created with; empty: not known."""
    deleted_with: str = ""
    """The name of the workload that it is deleted with; empty: it is kept."""
    is_deleting: bool = False
    size_bytes: int = 0
    """Of one that its cluster provides; 0: not known, or not one of ours."""
    storage_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageContext:
    """What the storage of a submit is checked against."""

    claims: Mapping[str, KnownClaim] = field(default_factory=dict)
    """Of the project, by name; empty if the submit names none."""
    roots: tuple[str, ...] = ("/",)
    """The directories of nodes that may be mounted."""
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of the project, by name, with their contents; empty if the submit names none."""
    git_timeout_s: int = 600
    git_size_bytes: int = 10 << 30
    storage_classes: tuple[str, ...] = (STORAGE_CLASS,)
    """Of the project's cluster."""
    has_default_class: bool = True
    """A claim that names no class gets one."""


def check_storage(
    spec: wire.CommonSpec, context: StorageContext, project: str, workload: str, problems: ProblemList
) -> None:
    """Add everything that is wrong with the volumes of a submit."""
    for each in spec.storage.pvc:
        _check_claim(each, context.claims, project, workload, problems)
        if each.claim_info is not None and not each.existing_pvc:
            _check_class(each.claim_info, context, problems)
    for host in spec.storage.host_path:
        _check_host_path(host.path, context.roots, f"{PLACE}.hostPath.path", problems)
    if spec.python_env is not None:
        _check_python_env(spec.python_env, context.roots, problems)
    for source in spec.storage.git:
        _check_git(source, context.roots, problems)
    _check_config_maps(spec, context, project, problems)
    _check_targets(spec, problems)


def volumes_of(common: wire.CommonSpec, context: StorageContext) -> tuple[Volume, ...]:
    """The volumes of an admitted submit."""
    storage = common.storage
    uploaded = [Volume(target=common.workdir.path.rstrip("/"), uploaded=True)] if common.workdir is not None else []
    folders = [Volume(target=each.mount_path, source=each.path, read_only=each.read_only) for each in storage.host_path]
    claims = [
        Volume(
            target=each.path,
            claim=each.claim_name,
            read_only=each.read_only,
            access=_access(each, context.claims),
            **_provided(each, context.claims),
        )
        for each in storage.pvc
        if each.claim_name
    ]
    clones = [
        Volume(target=each.path, git=_clone(each, context), credential=each.credential or "") for each in storage.git
    ]
    secrets = [Volume(target=each.mount_path, secret=each.name, read_only=True) for each in storage.secret_volume]
    configs = [
        Volume(target=each.mount_path, files=tuple(sorted(files.items())), read_only=True)
        for each in storage.config_map_volume
        if (files := context.config_maps.get(each.name))
    ]
    empty = [Volume(target=each.path, empty=True) for each in storage.empty_dir_volume]
    return (*uploaded, *folders, *claims, *clones, *configs, *secrets, *empty)


def variables_of(
    variables: Iterable[pod_spec.EnvironmentVariable], context: StorageContext
) -> tuple[tuple[str, str], ...]:
    """The environment variables of an admitted submit that are no secrets, with those from config maps filled in."""
    return tuple((each.name, resolved_value(each, context)) for each in variables if each.credential is None)


def resolved_value(variable: pod_spec.EnvironmentVariable, context: StorageContext) -> str:
    """What a variable that is no secret has, from a config map or by itself."""
    source = variable.config_map
    return variable.value if source is None else context.config_maps.get(source.name, {}).get(source.key, "")


def pods_of(spec: wire.CommonSpec) -> dict[str, pod_spec.PodSpecWire]:
    """The pods that a submit describes, by their place in it: those of the workload, and its master."""
    master = spec.master_spec if isinstance(spec, wire.DistributedSpec) else None
    return {"spec": spec} if master is None else {"spec": spec, "spec.masterSpec": master}


def named_config_maps(spec: wire.CommonSpec) -> set[str]:
    """The config maps that a submit names."""
    variables = (each for pod in pods_of(spec).values() for each in pod.environment_variables)
    found = {each.config_map.name for each in variables if each.config_map is not None}
    return found | {each.name for each in spec.storage.config_map_volume}


# --- claims --------------------------------------------------------------------------------------------------


def _access(claim: pod_spec.Pvc, known: Mapping[str, KnownClaim]) -> AccessMode:
    if claim.claim_info is not None and not claim.existing_pvc:
        return AccessMode(claim.claim_info.access_mode)
    return known.get(claim.claim_name or "", KnownClaim()).access


def _provided(claim: pod_spec.Pvc, known: Mapping[str, KnownClaim]) -> dict[str, Any]:
    """Size and class of a claim of ours: every workload that mounts it can have it made again."""
    if claim.claim_info is not None and not claim.existing_pvc:
        size, storage_class = bytes_of(claim.claim_info.size) or 0, claim.claim_info.storage_class or ""
    else:
        found = known.get(claim.claim_name or "", KnownClaim())
        size, storage_class = found.size_bytes, found.storage_class
    return {"size_bytes": size, "storage_class": storage_class}


def _check_class(info: pod_spec.ClaimInfo, context: StorageContext, problems: ProblemList) -> None:
    classes, place = context.storage_classes, f"{PLACE}.pvc.claimInfo.storageClass"
    if info.storage_class is None:
        if not context.has_default_class:
            fix = f"name one: {', '.join(classes)}" if classes else "ask an administrator to add one"
            problems.add("claim.no_default_class", "the cluster has no default storage class", fix, place)
    elif info.storage_class not in classes:
        what = f"there is no storage class {info.storage_class!r}"
        listed = f"use {' or '.join(classes)}, or remove it" if classes else "the cluster has none"
        why = ": claims are folders on the node" if classes == (STORAGE_CLASS,) else ""
        problems.add("claim.class", what, f"{listed}{why}", place)


def _check_claim(
    claim: pod_spec.Pvc, known: Mapping[str, KnownClaim], project: str, workload: str, problems: ProblemList
) -> None:
    name, place = claim.claim_name or "", f"{PLACE}.pvc"
    if claim.existing_pvc:
        _check_existing(claim, known, project, workload, problems)
    elif claim.claim_info is None:
        problems.add("claim.no_size", "a new claim needs a size", "set claimInfo.size, e.g. 10Gi", place)
    elif name in known:
        what = f"project {project} already has a volume claim {name}"
        problems.add("claim.exists", what, f"mount it: --pvc {name}:{claim.path}", f"{place}.claimName")
    elif name and not NAME.fullmatch(name):
        what = f"{name!r} is not a valid claim name"
        problems.add("claim.name", what, "use a-z, 0-9 and -, starting with a letter", f"{place}.claimName")


def _check_existing(
    claim: pod_spec.Pvc, known: Mapping[str, KnownClaim], project: str, workload: str, problems: ProblemList
) -> None:
    name, place = claim.claim_name or "", f"{PLACE}.pvc"
    if not name:
        problems.add("claim.unnamed", "an existing claim needs a name", "set claimName", f"{place}.claimName")
        return
    found = known.get(name)
    if found is None:
        near = difflib.get_close_matches(name, sorted(known), n=1)
        listed = f"existing claims: {', '.join(sorted(known))}" if known else "the project has no claims yet"
        meant = f"did you mean {near[0]}? " if near else ""
        fix = f"{meant}{listed}; to create one: --new-pvc claimname={name},size=10Gi,path={claim.path}"
        problems.add("claim.unknown", f"project {project} has no volume claim {name}", fix, f"{place}.claimName")
        return
    if found.is_deleting:
        problems.add("claim.deleting", f"claim {name} is being deleted", "use another claim", f"{place}.claimName")
    is_own = bool(workload) and found.workload == workload
    if found.deleted_with and not is_own:
        what = f"claim {name} is deleted with job {found.deleted_with} and cannot be used by another"
        problems.add("claim.ephemeral", what, "create a claim that is kept", f"{place}.claimName")
    if found.access is AccessMode.READ_ONLY and not claim.read_only and not is_own:
        what = f"claim {name} is read-only for all jobs but the one that created it"
        problems.add("claim.read_only", what, f"mount it read-only: --pvc {name}:{claim.path}:ro", f"{place}.readOnly")


# --- folders of nodes ----------------------------------------------------------------------------------------


def _check_host_path(path: str, roots: tuple[str, ...], place: str, problems: ProblemList) -> None:
    if ".." in path.split("/"):
        problems.add("volume.dots", f"the path {path} contains ..", "write the path without it", place)
    elif not _is_within(normal_path(path), roots):
        allowed = ", ".join(roots) if roots else "none"
        what = f"{path} is not in a folder of the nodes that may be mounted (allowed: {allowed})"
        fix = "use a folder in one of those, or a volume claim (--pvc)" if roots else "use a volume claim (--pvc)"
        problems.add("volume.root", what, fix, place)


def _check_python_env(path: str, roots: tuple[str, ...], problems: ProblemList) -> None:
    if path.startswith("/"):
        _check_host_path(path, roots, "spec.pythonEnv", problems)
        return
    what = f"the Python environment {path!r} is not an absolute path"
    fix = "use the path of its directory on the node, e.g. /opt/envs/train"
    problems.add("spec.python_env", what, fix, "spec.pythonEnv")


def _is_within(path: str, roots: tuple[str, ...]) -> bool:
    return any(root == "/" or path == root or path.startswith(f"{root}/") for root in roots)


def _check_targets(spec: wire.CommonSpec, problems: ProblemList) -> None:
    """The agent refuses a double or an impossible mount point too, but only when the pod starts."""
    seen: set[str] = set()
    for field_name, target in _targets(spec):
        path = normal_path(target)
        if ".." in target.split("/"):
            problems.add("volume.dots", f"the mount point {target} contains ..", "write it without", field_name)
        elif path == "/":
            problems.add("volume.target", "a volume cannot be mounted at /", "use another path", field_name)
        elif path in seen:
            problems.add("volume.twice", f"two volumes are mounted at {path}", "use a path for each", field_name)
        seen.add(path)


def _targets(spec: wire.CommonSpec) -> Iterator[tuple[str, str]]:
    storage = spec.storage
    yield from ((f"{PLACE}.hostPath.mountPath", each.mount_path) for each in storage.host_path)
    yield from ((f"{PLACE}.pvc.path", each.path) for each in storage.pvc)
    yield from ((f"{PLACE}.git.path", each.path) for each in storage.git)
    yield from ((f"{PLACE}.configMapVolume.mountPath", each.mount_path) for each in storage.config_map_volume)
    yield from ((f"{PLACE}.secretVolume.mountPath", each.mount_path) for each in storage.secret_volume)
    yield from ((f"{PLACE}.emptyDirVolume.path", each.path) for each in storage.empty_dir_volume)


# --- repositories and config maps ----------------------------------------------------------------------------


def _clone(source: pod_spec.GitSource, context: StorageContext) -> GitClone:
    return GitClone(
        repository=source.repository,
        branch=source.branch or "",
        revision=source.revision or "",
        timeout_s=context.git_timeout_s,
        size_bytes=context.git_size_bytes,
    )


def _check_git(source: pod_spec.GitSource, roots: tuple[str, ...], problems: ProblemList) -> None:
    problem = git_problem(source.repository, source.branch or "", source.revision or "")
    if problem is not None:
        problems.add_problem(problem, f"{PLACE}.git")
    elif source.repository.startswith("file://"):
        _check_host_path(source.repository.removeprefix("file://"), roots, f"{PLACE}.git.repository", problems)


def _check_config_maps(spec: wire.CommonSpec, context: StorageContext, project: str, problems: ProblemList) -> None:
    known = context.config_maps
    for name in sorted(named_config_maps(spec) - set(known)):
        what = f"project {project} has no config map {name}"
        fix = f"create it: runai configmap create {name} --from-file FILE"
        problems.add("config_map.unknown", what, fix, f"{PLACE}.configMapVolume")
    variables = [
        (each, source, f"{place}.environmentVariables")
        for place, pod in pods_of(spec).items()
        for each in pod.environment_variables
        if (source := each.config_map) is not None
    ]
    for each, source, place in variables:
        if each.value:
            what = f"{each.name} has both a value and a config map"
            problems.add("spec.two_values", what, "remove one of them", place)
        if source.name in known:
            _check_key(source, known[source.name], f"{place}.configMap", problems)
    mounted = [known.get(each.name, {}) for each in spec.storage.config_map_volume]
    size = sum(len(name.encode()) + len(text.encode()) for files in mounted for name, text in files.items())
    size += sum(len(resolved_value(each, context).encode()) for each, _, _ in variables)
    if size > CONFIG_BYTES_MAX:
        what = f"the config maps of the job have {size} bytes; the maximum is {CONFIG_BYTES_MAX}"
        problems.add("config_map.too_large", what, "put large files in a volume claim", f"{PLACE}.configMapVolume")


def _check_key(source: pod_spec.ConfigMapKey, data: Mapping[str, str], place: str, problems: ProblemList) -> None:
    value = data.get(source.key)
    if value is None:
        what = f"config map {source.name} has no key {source.key}"
        problems.add("config_map.key", what, f"use one of {', '.join(sorted(data))}", place)
    elif (size := len(value.encode())) >= ENVIRONMENT_VALUE_MAX:
        what = f"the value of {source.key} of config map {source.name} has {size} bytes; a variable has fewer than "
        fix = f"mount it as a file: --configmap-volume name={source.name},path=/{source.name}"
        problems.add("config_map.too_long", f"{what}{ENVIRONMENT_VALUE_MAX}", fix, place)
