"""What a workload would run with, field by field, as the rules of policies compare it. Pure.

A field that is left out is read as what the platform does then: one run, 30 seconds of grace, no time limit. Whatever
asks for GPUs is read in every way to ask for them, so that a rule for one way also binds the others. Where that cannot
be known before the pods start, the reading says so, and a rule about it refuses.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fairpool.api import workload_spec as wire
from fairpool.api.pod_spec import Compute
from fairpool.api.wire import ValidationError
from fairpool.control.admission import KINDS, RESTARTS
from fairpool.control.pod_template import FROM_THE_DIRECTORY
from fairpool.control.policy_document import amount
from fairpool.control.policy_fields import FieldType, PolicyField, policy_fields
from fairpool.control.resource_request import cpu_milli_of, gpu_request, memory_bytes_of
from fairpool.control.template_values import GPU_PATHS, POD_FIELDS, Values, value_at
from fairpool.model.array import Array, parse_numbers
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.precedence import PRIORITY_CLASSES, class_name, precedence
from fairpool.model.problem import Problem
from fairpool.model.spec import DEFAULT_GRACE_S, RESTART_RULES
from fairpool.model.workload import GpuKind, GpuRequest

MIB = 1024 * 1024
OFF_WHEN_ABSENT = frozenset(
    {
        *("imagePullSecret", "pythonEnv", "slotsPerWorker", "sshAuthMountPath", "compute.migProfile", "args"),
        *("topology.name", "topology.required", "topology.preferred", "security.supplementalGroups"),
        *(f"servingPort.{name}" for name in ("container", "protocol", "authorizationType")),
        *(
            f"autoscaling.{name}"
            for name in (
                *("activationReplicas", "metric", "metricName", "metricThreshold", "metricThresholdPercentage"),
                *("concurrencyHardLimit", "scaleToZeroRetentionSeconds", "scaleDownDelaySeconds"),
            )
        ),
    }
)
"""Fields without which the workload does not use what they are about: nothing is left to compare."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The value of a field, to compare."""

    value: Any = None
    """A Decimal, a text, a tuple of texts, or true or false. None: not set."""
    is_off: bool = False
    """Not set, and the workload does not use what it is about: limits and options hold."""
    is_unlimited: bool = False
    unknown: str = ""
    """Why it cannot be known before the pods start."""
    given_as: str = ""
    """The field that says it, if it is another one."""
    least: Decimal | None = None
    """Of one that is unknown: it is no less than this."""
    fix: str = ""
    """Of one that is unknown: what makes it known."""


OF_THE_SUBMITTER = "runAsUser takes the user from the one who submits"
OFF = Reading(is_off=True)
UNLIMITED = Reading(is_unlimited=True)


@dataclass(frozen=True, slots=True)
class PodView:
    """The values of one kind of pod of a workload: its pods, or its master."""

    kind: wire.Kind
    values: Values
    place: str = "spec"
    """Where they are in the request."""

    def reading(self, path: str) -> Reading:
        known = policy_fields(self.kind)[path]
        if path in GPU_PATHS or path in ("compute.cpuCoreRequest", "compute.cpuMemoryRequest"):
            return self._of_compute(path)
        special = SPECIAL.get(path)
        if special is not None:
            return special(self)
        value = value_at(self.values, path)
        return self.plain(known, known.default if value is None else value)

    def plain(self, known: PolicyField, value: Any) -> Reading:
        """A value as it is given."""
        if value is None or value == "":
            return OFF if known.path in OFF_WHEN_ABSENT else Reading()
        if known.type.has_range:
            found = amount(known.type, value)
            return Reading(unknown=f"{value!r} is not {known.type.value}") if found is None else Reading(found)
        if known.type is FieldType.WORDS:
            return _words(value) if "array" not in self.values else Reading(unknown="each run of the array has its own")
        if known.type is FieldType.TEXTS:
            return Reading(tuple(str(each) for each in value))
        return Reading(value)

    def given(self, path: str) -> Any:
        return value_at(self.values, path)

    def _of_compute(self, path: str) -> Reading:
        problems: list[Any] = []
        try:
            compute = Compute.model_validate(self.values.get("compute") or {})
        except ValidationError:
            return Reading(unknown="the resources are not valid")
        request = gpu_request(compute, problems)
        if problems:
            return Reading(unknown="the requested GPUs are not valid")
        if path == "compute.cpuCoreRequest":
            return Reading(Decimal(cpu_milli_of(compute, request)) / 1000)
        if path == "compute.cpuMemoryRequest":
            return Reading(Decimal(memory_bytes_of(compute, request)))
        given_as = next((each for each in GPU_PATHS if self.given(each) is not None), path)
        found = _gpus(path, request, compute)
        return Reading(found.value, found.is_off, found.is_unlimited, found.unknown, given_as)


def pod_views(kind: wire.Kind, spec: Values) -> tuple[PodView, PodView | None]:
    """The pods of a workload, and its master if it has one of another kind."""
    pods = PodView(kind, spec)
    if kind is not wire.Kind.DISTRIBUTED or spec.get("noMaster"):
        return pods, None
    own = spec.get("masterSpec")
    if isinstance(own, Mapping):
        image = {} if own.get("image") else {"image": spec.get("image")}
        shared = {name: value for name, value in spec.items() if name not in POD_FIELDS}
        return pods, PodView(kind, {**shared, **own, **image}, "spec.masterSpec")
    if spec.get("distributedFramework") == "MPI":
        return pods, PodView(kind, {**spec, "compute": {}})
    return pods, None


def items_of(spec: Values, known: PolicyField) -> list[tuple[str, Any]]:
    """The items of a list, each with its key as text. Labels are items too."""
    value = value_at(spec, known.path)
    if isinstance(value, Mapping):
        return [(str(name), {"name": name, "value": each}) for name, each in value.items()]
    return [(item_key(known, each), each) for each in value or ()]


def item_key(known: PolicyField, item: Any) -> str:
    if known.key and isinstance(item, Mapping):
        found = item.get(known.key)
        return str(known.attributes[known.key].default if found is None and known.key in known.attributes else found)
    if isinstance(item, Mapping):
        return str(item.get("key") or item.get("name") or "")
    return str(item)


def attribute_reading(view: PodView, known: PolicyField, item: Any, attribute: str) -> Reading:
    """The value of an attribute of an item."""
    head, _, below = attribute.partition(".")
    value = item.get(head) if isinstance(item, Mapping) else None
    if below:
        if value is None:
            return OFF
        value = value.get(below) if isinstance(value, Mapping) else None
    inner = known.attributes[attribute]
    return view.plain(inner, inner.default if value is None else value)


def _gpus(path: str, request: GpuRequest, compute: Compute) -> Reading:
    name = path.partition(".")[2]
    if name == "gpuDevicesRequest":
        return Reading(Decimal(sum(count for _, count in request.mig) if request.mig else request.devices))
    if name == "migProfile":
        return Reading(compute.mig_profile) if compute.mig_profile else OFF
    if request.kind is GpuKind.NONE:
        return Reading(Decimal(0)) if name == "gpu" else OFF
    if name == "gpuRequestType":
        kinds = {GpuKind.MEMORY: "memory", GpuKind.MIG: "migProfile"}
        return Reading(kinds.get(request.kind, "portion"))
    by_memory = name in ("gpuMemoryRequest", "gpuMemoryLimit")
    if by_memory != (request.kind is GpuKind.MEMORY) or request.kind is GpuKind.MIG:
        asked = {GpuKind.MEMORY: "by memory", GpuKind.MIG: "by MIG profile"}.get(request.kind, "by number")
        return Reading(unknown=f"GPUs are requested {asked}, which says nothing about {name}")
    if by_memory:
        return Reading(Decimal(request.memory_mib) * MIB)
    portion = Decimal(request.portion_milli) / 1000
    return Reading(portion * request.devices if name == "gpu" else portion)


def _words(value: Any) -> Reading:
    try:
        return Reading(shlex.join(shlex.split(value) if isinstance(value, str) else value))
    except ValueError:
        return Reading(unknown="it has an unclosed quote")


# --- fields that mean something when they are left out -------------------------------------------------------------


def _or(path: str, otherwise: Reading) -> Callable[[PodView], Reading]:
    def found(view: PodView) -> Reading:
        value = view.given(path)
        return otherwise if value is None else view.plain(policy_fields(view.kind)[path], value)

    return found


def _limit(path: str) -> Callable[[PodView], Reading]:
    def found(view: PodView) -> Reading:
        reading = _or(path, UNLIMITED)(view)
        return UNLIMITED if reading.value == 0 else reading

    return found


def _grace(view: PodView) -> Reading:
    return _or("terminationGracePeriodSeconds", Reading(Decimal(DEFAULT_GRACE_S)))(view)


def _retries(view: PodView) -> Reading:
    implied = RESTART_RULES[KINDS[view.kind]].retries
    return _or("backoffLimit", UNLIMITED if implied is None else Reading(Decimal(implied)))(view)


def _restart(view: PodView) -> Reading:
    implied = RESTART_RULES[KINDS[view.kind]].restart
    return Reading(view.given("restartPolicy") or next(word for word, rule in RESTARTS.items() if rule is implied))


def _precedence(view: PodView) -> tuple[str, bool] | None:
    name, preemptible = view.given("priorityClass"), view.given("preemptibility")
    if name is not None and name not in PRIORITY_CLASSES:
        return None
    is_preemptible = None if preemptible is None else preemptible == "preemptible"
    found = precedence(KINDS[view.kind], PRIORITY_CLASSES.get(name or ""), is_preemptible)
    return class_name(found.priority), found.preemptible


def _priority(view: PodView) -> Reading:
    found = _precedence(view)
    return Reading(unknown="there is no such priority") if found is None else Reading(found[0])


def _preemptibility(view: PodView) -> Reading:
    found = _precedence(view)
    if found is None:
        return Reading(unknown="there is no such priority")
    return Reading("preemptible" if found[1] else "non-preemptible")


def _array(view: PodView) -> int | None:
    """How many runs an array has; None: there is none, or it is not valid."""
    said = view.values.get("array")
    if not isinstance(said, Mapping):
        return None
    numbers = parse_numbers(said["indices"]) if said.get("indices") is not None else ()
    if isinstance(numbers, Problem):
        return None
    parameters = tuple((each["name"], tuple(each["values"])) for each in said.get("parameters") or ())
    arguments = tuple(map(tuple, said.get("arguments") or ()))
    return Array(ranges=numbers, parameters=parameters, arguments=arguments).count


def _completions(view: PodView) -> Reading:
    runs = _array(view)
    if "array" in view.values and runs is None:
        return Reading(unknown="the array is not valid")
    return Reading(Decimal(runs)) if runs is not None else _or("completions", Reading(Decimal(1)))(view)


def _parallelism(view: PodView) -> Reading:
    given = _or("parallelism", Reading(Decimal(1)))(view)
    if "array" not in view.values or view.given("parallelism") is not None:
        return given
    return _completions(view)


def _workers(view: PodView) -> Reading:
    """As many as it may grow to."""
    most = view.given("maxReplicas")
    return _number(view.given("numWorkers") or 1) if most is None else Reading(Decimal(most), given_as="maxReplicas")


def _number(value: Any) -> Reading:
    found = amount(FieldType.WHOLE, value)
    return Reading(unknown=f"{value!r} is not a whole number") if found is None else Reading(found)


def _fewest_workers(view: PodView) -> Reading:
    least = view.given("minReplicas")
    return _workers(view) if least is None else _number(least)


def _most_workers(view: PodView) -> Reading:
    return _workers(view)


def _replicas(name: str) -> Callable[[PodView], Reading]:
    def found(view: PodView) -> Reading:
        given = view.given(f"autoscaling.{name}")
        least = view.given("autoscaling.minReplicas")
        return _number(given if given is not None else 1 if least is None else least)

    return found


def _pools(view: PodView) -> Reading:
    return Reading(tuple(view.given("nodePools") or (DEFAULT_POOL,)))


def _user(path: str) -> Callable[[PodView], Reading]:
    def found(view: PodView) -> Reading:
        value, source = view.given(path), view.given("security.uidGidSource")
        if view.given("security.runAsUser") and source is None:
            return Reading(unknown=OF_THE_SUBMITTER)
        if value is None and source == FROM_THE_DIRECTORY:
            # Root and its group are refused whatever the directory says.
            fix = f"set uidGidSource to custom, and {path}"
            return Reading(unknown="the directory has the user of each submitter", least=Decimal(1), fix=fix)
        if value is None:
            return Reading(unknown="the image or the platform chooses the user unless it is set")
        return _number(value)

    return found


def _user_source(view: PodView) -> Reading:
    given = view.given("security.uidGidSource")
    if given is not None:
        return Reading(given)
    own = any(view.given(f"security.{name}") is not None for name in ("runAsUid", "runAsGid"))
    if view.given("security.runAsUser"):
        return Reading(unknown=OF_THE_SUBMITTER)
    return Reading("custom") if own else Reading()


def _capabilities(view: PodView) -> Reading:
    return Reading(tuple(capability(each) for each in view.given("security.capabilities") or ()))


def capability(name: str) -> str:
    """A Linux capability in one spelling."""
    return str(name).upper().removeprefix("CAP_")


SPECIAL: Mapping[str, Callable[[PodView], Reading]] = {
    "compute.cpuCoreLimit": _limit("compute.cpuCoreLimit"),
    "compute.cpuMemoryLimit": _limit("compute.cpuMemoryLimit"),
    "deadlineSeconds": _or("deadlineSeconds", UNLIMITED),
    "autoDeletionTimeAfterCompletionSeconds": _or("autoDeletionTimeAfterCompletionSeconds", UNLIMITED),
    "terminationGracePeriodSeconds": _grace,
    "backoffLimit": _retries,
    "restartPolicy": _restart,
    "priorityClass": _priority,
    "preemptibility": _preemptibility,
    "completions": _completions,
    "parallelism": _parallelism,
    "numWorkers": _workers,
    "minReplicas": _fewest_workers,
    "maxReplicas": _most_workers,
    "autoscaling.minReplicas": _replicas("minReplicas"),
    "autoscaling.maxReplicas": _replicas("maxReplicas"),
    "autoscaling.initialReplicas": _replicas("initialReplicas"),
    "nodePools": _pools,
    "security.runAsUid": _user("security.runAsUid"),
    "security.runAsGid": _user("security.runAsGid"),
    "security.uidGidSource": _user_source,
    "security.capabilities": _capabilities,
}
