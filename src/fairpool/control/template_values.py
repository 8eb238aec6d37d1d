"""The values of a submit from the request, from templates and from assets, each with its origin. Pure.

From the highest precedence to the lowest: what a policy or an administrative template locks, the request,
administrative templates (of the project, its department, its cluster, the tenant), the named template, the defaults of
the project, the defaults of policies. The assets that one of them names come directly after it. Single values replace
each other; lists of mounts, ports and the like are joined, variables and labels by their name. Of the ways to ask for
GPUs the highest that says anything counts alone; a command is not given the arguments of a lower one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from fairpool.api import workload_spec as wire
from fairpool.api.assets import AssetScope, SupportedTypes
from fairpool.api.limits import GPU_FIELDS
from fairpool.api.pod_spec import PodSpecWire
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import compact

Values = Mapping[str, Any]
"""Fields of a specification as they travel, those that are given."""

SPECS: Mapping[wire.Kind, type[wire.CommonSpec]] = {
    wire.Kind.WORKSPACE: wire.WorkspaceSpec,
    wire.Kind.TRAINING: wire.TrainingSpec,
    wire.Kind.DISTRIBUTED: wire.DistributedSpec,
    wire.Kind.INFERENCE: wire.InferenceSpec,
}
ONE_SUBMIT_ONLY = ("template", "after", "workdir", "array")
"""Fields that name what belongs to one submit."""
NESTED = ("compute", "security", "storage", "topology", "autoscaling", "servingPort", "assets")
"""Merged field by field."""
BY_NAME = ("labels", "annotations")
KEYS = {
    "environmentVariables": "name",
    "ports": "container",
    "exposedUrls": "container",
    "tolerations": "",
    "storage.pvc": "path",
    "storage.nfs": "mountPath",
    "storage.git": "path",
    "storage.s3": "path",
    "storage.hostPath": "mountPath",
    "storage.configMapVolume": "mountPath",
    "storage.secretVolume": "mountPath",
    "storage.emptyDirVolume": "path",
    "compute.extendedResources": "resource",
    "security.capabilities": "",
    "assets.datasources": "id",
}
"""Lists that are joined, and what tells their items apart; empty: the whole item."""
GPU_PATHS = tuple(f"compute.{name}" for name in GPU_FIELDS)
TOGETHER = {**dict.fromkeys(GPU_PATHS, GPU_PATHS), "args": ("command", "args")}
"""Fields that are not filled in where a higher precedence says one of these: they mean something together."""
SAYING_THE_SAME = (GPU_PATHS, ("nodeType", "nodeAffinityRequired"), ("ports", "exposedUrls"), ("args", "array"))
"""Who locks one of them locks the others."""
POD_FIELDS = frozenset(str(info.alias) for info in PodSpecWire.model_fields.values())
"""What the master of a distributed workload has of its own."""
WIDEST_FIRST = (AssetScope.TENANT, AssetScope.CLUSTER, AssetScope.DEPARTMENT, AssetScope.PROJECT)


@dataclass(frozen=True, slots=True)
class AssetValues:
    """What an environment, a compute resource or a data source says about a submit that names it."""

    id: str
    path: str
    """The field that names it: `assets.environment`."""
    origin: str
    """`environment pytorch (tenant)`."""
    values: Values

    def is_named_by(self, spec: Values) -> bool:
        named = value_at(spec, self.path)
        return self.id in [each["id"] for each in named] if isinstance(named, list) else named == self.id


@dataclass(frozen=True, slots=True)
class TemplateValues:
    """What a template says about a submit."""

    name: str
    scope: AssetScope
    values: Values
    administrative: bool = False
    required: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    assets: tuple[AssetValues, ...] = ()
    """Those that it names."""

    @property
    def whole(self) -> Values:
        """Its values with those of its assets."""
        found = Merged(dict(self.values))
        for asset in self.assets:
            _fill(found, dict(fields_in(asset.values)), asset.origin)
        return found.spec

    @property
    def origin(self) -> str:
        """`administrative template gpus (tenant)`."""
        return f"{'administrative template' if self.administrative else 'template'} {self.name} ({self.scope.value})"


@dataclass(slots=True)
class Merged:
    """The specification with the values of all templates, and the origin of those that the request did not give."""

    spec: dict[str, Any]
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[ProblemItem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lock:
    """A field that cannot be set to another value."""

    path: str
    """As it was locked: it may be of another field that says the same, or of all fields around it."""
    origin: str
    value: Any
    """None: it must not be set."""
    shown: Any = None
    """The value of `path`, for messages."""
    code: str = "template.locked"


@dataclass(frozen=True, slots=True)
class Locks:
    """Locked fields by their path: of the workload, and of its master where that has others."""

    fields: Mapping[str, Lock] = field(default_factory=dict)
    master: Mapping[str, Lock] = field(default_factory=dict)

    def of_templates_too(self, templates: Iterable[TemplateValues]) -> Locks:
        """With those of templates, which count where no policy locks the same field."""
        return Locks({**_locks(templates), **self.fields}, self.master)

    def problems(self, request: Values) -> list[ProblemItem]:
        """Refusals of fields that a request sets to another value than the locked one."""
        master = request.get("masterSpec")
        found = {path: lock for path, lock in self.fields.items() if _differs(value_at(request, path), lock.value)}
        inside = _of_pods({**self.fields, **self.master}) if isinstance(master, Mapping) else {}
        found |= {path: lock for path, lock in inside.items() if _differs(value_at(master or {}, path), lock.value)}
        return [_locked_problem(path, lock) for path, lock in found.items()]


NO_LOCKS = Locks()


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values of a low precedence: the project's, or those of a policy."""

    origin: str
    values: Values
    master: Values = field(default_factory=dict)
    """For the master of a distributed workload, before `values`."""


def merged(
    request: Values,
    templates: Iterable[TemplateValues],
    assets: Iterable[AssetValues] = (),
    defaults: Iterable[Defaults] = (),
    locks: Locks = NO_LOCKS,
) -> Merged:
    """The values of a submit. `templates`: the administrative ones and the named one, in any order; `assets`: those
    that the request names; `defaults`: in their order; `locks`: those of policies."""
    ordered = sorted(templates, key=lambda each: (each.administrative, WIDEST_FIRST.index(each.scope)), reverse=True)
    all_locks = locks.of_templates_too(ordered)
    locked = all_locks.fields
    found = Merged(dict(request), problems=all_locks.problems(request))

    def fill(values: Values, origin: str) -> None:
        _fill(found, {path: value for path, value in fields_in(values) if path not in locked}, origin)

    for asset in assets:
        found.problems += _locked_by_asset(asset, all_locks)
        fill(asset.values, asset.origin)
    for template in ordered:
        before = found.spec
        found.spec = dict(before)
        fill(template.values, template.origin)
        for asset in template.assets:
            is_locked = asset.path in locked and locked[asset.path].origin == template.origin
            if is_locked or (asset.is_named_by(found.spec) and not asset.is_named_by(before)):
                fill(asset.values, asset.origin)
    for each in defaults:
        if isinstance(found.spec.get("masterSpec"), Mapping):
            _fill_master(found, dict(fields_in(each.master)), each.origin)
        fill(each.values, each.origin)
    _hold(found, all_locks)
    found.problems += _missing(found.spec, ordered)
    return found


def relocked(spec: Values, templates: Sequence[TemplateValues], locks: Locks = NO_LOCKS) -> Merged:
    """The specification of a workload that is changed: with what is locked, and what lacks that templates require."""
    found = Merged(dict(spec))
    _hold(found, locks.of_templates_too(templates))
    found.problems = _missing(found.spec, templates)
    return found


def _missing(spec: Values, templates: Iterable[TemplateValues]) -> list[ProblemItem]:
    return [
        ProblemItem(
            code="template.required",
            what=f"{path} must be set: {template.origin} requires it",
            fix="set it in the request",
            field=f"spec.{path}",
        )
        for template in templates
        for path in template.required
        if all(value_at(spec, each) is None for each in (GPU_PATHS if path in GPU_PATHS else (path,)))
    ]


def _locked_by_asset(asset: AssetValues, locks: Locks) -> list[ProblemItem]:
    """Refusals of an asset of the request that sets what is locked: without its value it would be another asset."""
    return [
        ProblemItem(
            code=each.code,
            what=f"{asset.origin} cannot be used: {each.what}",
            fix="use another one, or none",
            field=f"spec.{asset.path}",
        )
        for each in locks.problems(asset.values)
    ]


def _differs(given: Any, value: Any) -> bool:
    if given is None:
        return False
    is_text = isinstance(given, str | int | float) and isinstance(value, str | int | float)
    return str(given) != str(value) if is_text else bool(given != value)


def _locks(templates: Iterable[TemplateValues]) -> dict[str, Lock]:
    """Every field that templates lock. Where several lock one, that of the widest scope does."""
    found: dict[str, Lock] = {}
    for template in sorted(templates, key=lambda each: WIDEST_FIRST.index(each.scope)):
        values = template.whole
        for path in template.locked if template.administrative else ():
            for each in said_alike(path):
                lock = Lock(path, template.origin, value_at(values, each), value_at(values, path))
                found.setdefault(each, lock)
    return found


def said_alike(path: str) -> list[str]:
    """The fields that a lock of this one is about: also those that say the same in another way."""
    return [inner for same in _same(path) for inner in _inside(same)]


def _hold(found: Merged, locks: Locks) -> None:
    """Set every locked field to its value, whatever a request or a template says."""
    _hold_fields(found, locks.fields)
    master = found.spec.get("masterSpec")
    if isinstance(master, Mapping):
        inner = Merged(dict(master))
        _hold_fields(inner, _of_pods({**locks.fields, **locks.master}))
        found.spec["masterSpec"] = inner.spec
        found.origins |= {f"masterSpec.{path}": origin for path, origin in inner.origins.items()}


def _hold_fields(found: Merged, locks: Mapping[str, Lock]) -> None:
    for path, lock in locks.items():
        given = value_at(found.spec, path)
        if lock.value is None and given is not None:
            _remove(found.spec, path)
        elif lock.value is not None and (given is None or _differs(given, lock.value)):
            _put(found, path, lock.value, lock.origin)


def _of_pods(locks: Mapping[str, Lock]) -> dict[str, Lock]:
    return {path: lock for path, lock in locks.items() if path.partition(".")[0] in POD_FIELDS}


def _same(path: str) -> tuple[str, ...]:
    """A field, and those that say the same in another way."""
    return next((group for group in SAYING_THE_SAME if path in group), (path,))


def _inside(path: str) -> tuple[str, ...]:
    """A field; of one that is merged field by field, its fields."""
    return tuple(f"{path}.{name}" for name in _names_inside(path)) if path in NESTED else (path,)


def _names_inside(top: str) -> list[str]:
    infos = [info for spec in SPECS.values() for info in spec.model_fields.values() if info.alias == top]
    models = [infos[0].annotation, *get_args(infos[0].annotation)] if infos else []  # alone, or `Model | None`
    return [info.alias for each in models for info in getattr(each, "model_fields", {}).values()]


def _locked_problem(path: str, lock: Lock) -> ProblemItem:
    """By the field that was given; the lock may be of another one that says the same."""
    value, fix = lock.shown, "remove it"
    if isinstance(value, str | int | float):
        named = "its value" if path == lock.path else f"{lock.path} is locked, and its value"
        fix += f": {named} is {value if isinstance(value, str) else compact(value)}"
    what = f"{path} is locked by {lock.origin}"
    return ProblemItem(code=lock.code, what=what, fix=fix, field=f"spec.{path}")


def supported(values: Values) -> SupportedTypes:
    """Kinds of workloads that have every field of a template."""
    kinds: Any = {kind.value.lower(): _has_all(spec, values) for kind, spec in SPECS.items()}
    return SupportedTypes(**kinds)


def supports(types: SupportedTypes, kind: wire.Kind) -> bool:
    return bool(getattr(types, kind.value.lower()))


def _has_all(spec: type[wire.CommonSpec], values: Values) -> bool:
    return set(values) <= {info.alias for info in spec.model_fields.values()}


def is_field(path: str) -> bool:
    """Whether some kind of workload has this field."""
    top, _, below = path.partition(".")
    if below:
        return below in _names_inside(top)
    names = {info.alias for spec in SPECS.values() for info in spec.model_fields.values()}
    return top in names and top not in ONE_SUBMIT_ONLY


# --- merging -----------------------------------------------------------------------------------------------------


def fields_in(values: Values) -> Iterator[tuple[str, Any]]:
    """The fields of a specification; of nested ones, theirs: `compute.gpu`."""
    for name, value in values.items():
        if name in NESTED and isinstance(value, Mapping):
            yield from ((f"{name}.{below}", each) for below, each in value.items())
        else:
            yield name, value


def _fill(found: Merged, values: Values, origin: str) -> None:
    """Add what is not there yet."""
    said = {path for group in TOGETHER.values() for path in group if value_at(found.spec, path) is not None}
    for path, value in values.items():
        known = value_at(found.spec, path)
        if known is None and said.isdisjoint(TOGETHER.get(path, ())):
            _put(found, path, value, origin)
        elif path in KEYS and known is not None:
            _join(found, path, known, value, origin)
        elif path in BY_NAME and isinstance(known, Mapping):
            new = {name: text for name, text in value.items() if name not in known}
            put_at(found.spec, path, {**new, **known})
            found.origins |= {f"{path}.{name}": origin for name in new}
    if "masterSpec" not in values and isinstance(found.spec.get("masterSpec"), Mapping):
        _fill_master(found, values, origin)


def _fill_master(found: Merged, values: Values, origin: str) -> None:
    inner = Merged(dict(found.spec["masterSpec"]))
    _fill(inner, {path: value for path, value in values.items() if path.partition(".")[0] in POD_FIELDS}, origin)
    found.spec["masterSpec"] = inner.spec
    found.origins |= {f"masterSpec.{path}": origin for path in inner.origins}


def _join(found: Merged, path: str, known: Sequence[Any], more: Sequence[Any], origin: str) -> None:
    key = KEYS[path]
    there = [_key(each, key) for each in known]
    new = [each for each in more if _key(each, key) not in there]
    if new:
        put_at(found.spec, path, [*new, *known])
        found.origins |= {f"{path}.{_key(each, key)}" if key else path: origin for each in new}


def _key(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, Mapping) else item


def _put(found: Merged, path: str, value: Any, origin: str) -> None:
    put_at(found.spec, path, value)
    found.origins[path] = origin


def value_at(spec: Values, path: str) -> Any:
    """The value of a field; None: not given."""
    top, _, below = path.partition(".")
    value = spec.get(top)
    if below:
        value = value.get(below) if isinstance(value, Mapping) else None
    return None if value in ({}, [], "") else value


def _remove(spec: dict[str, Any], path: str) -> None:
    top, _, below = path.partition(".")
    if below:
        spec[top] = {name: value for name, value in spec[top].items() if name != below}
    else:
        del spec[top]


def put_at(spec: dict[str, Any], path: str, value: Any) -> None:
    """Set a field."""
    top, _, below = path.partition(".")
    if not below:
        spec[top] = value
    else:
        inside = spec.get(top)
        spec[top] = {**(inside if isinstance(inside, Mapping) else {}), below: value}
