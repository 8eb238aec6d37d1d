"""The `runai submit` command that submits the same workload, for one that was submitted in another way. Pure.

Every field becomes a flag. If one has none, the command hands the whole job to `runai submit -f -` as a job file
instead: a command that leaves something out would be another job.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fairpool.api.wire import compact

Fields = Mapping[str, Any]
Words = list[str]

INTERACTIVE, TRAINING, INFERENCE = "Workspace", "Training", "Inference"
KINDS: Final = {INTERACTIVE: ["--interactive"], TRAINING: [], INFERENCE: ["--inference"]}
"""Distributed work has commands of its own, whose master is not said in the same way: it is a job file."""
FILE_MARK: Final = "JOB"
FROM_ELSEWHERE: Final = ("SECRET:", "CONFIGMAP:")
"""How a value would be taken for a reference."""


class NoFlag(Exception):
    """There is no flag for a field or its value."""


def submit_command(kind: str, name: str, project: str, spec: Fields) -> str:
    """The command. `spec`: as it was submitted, by the names of the API."""
    try:
        return shlex.join(["runai", "submit", name, "-p", project, *_words(kind, spec)])
    except NoFlag:
        job = compact({"kind": kind, "name": name, "projectId": project, "spec": spec})
        return f"runai submit -f - <<'{FILE_MARK}'\n{job}\n{FILE_MARK}"


def _words(kind: str, spec: Fields) -> Words:
    if kind not in KINDS:
        raise NoFlag
    words, run = list(KINDS[kind]), _program(spec)
    for field, value in spec.items():
        if field in ("command", "args") or value in (None, [], {}, ""):
            continue
        if field in OF_KIND and OF_KIND[field] != kind:
            raise NoFlag
        words += _flags(kind, field, value)
    return [*words, *run]


def _program(spec: Fields) -> Words:
    """The words after `--`: arguments of the image's entrypoint, or with `--command` in its place."""
    command, arguments = (_split(spec.get(field)) for field in ("command", "args"))
    words = [*(["--command"] if command else []), "--", *command, *arguments]
    return words if command or arguments else []


def _split(value: Any) -> Words:
    try:
        return shlex.split(value) if isinstance(value, str) else list(value or ())
    except ValueError as error:
        raise NoFlag from error


def _flags(kind: str, field: str, value: Any) -> Words:
    if field in FLAGS:
        return [FLAGS[field], str(value)]
    if field in SWITCHES:
        return _switch(SWITCHES[field], value)
    if field in SECONDS:
        return [SECONDS[field], f"{value}s"]
    if field in LISTS:
        return [word for each in value for word in (LISTS[field], _word(each))]
    if field in PAIRS:
        return [word for key, each in value.items() for word in (PAIRS[field], _pair(key, each))]
    if field == "ports" and kind == INFERENCE:
        raise NoFlag  # `--port` is that of the model there
    if field not in OTHERS:
        raise NoFlag
    return list(OTHERS[field](value))


def _switch(flag: str, value: Any) -> Words:
    return [flag] if value is True else []


def _word(value: Any) -> str:
    """One of several in a list: commas would make more of it."""
    if not isinstance(value, str) or "," in value:
        raise NoFlag
    return value


def _pair(key: str, value: Any) -> str:
    if not key or "=" in key:
        raise NoFlag
    return f"{key}={value}"


def _only(given: Fields, *names: str) -> None:
    """Refuse fields that no flag has, unless they say nothing."""
    if any(value not in (None, [], {}, "", False) for name, value in given.items() if name not in names):
        raise NoFlag


# --- fields with a form of their own -----------------------------------------------------------------------------


def _variables(given: list[Fields]) -> Iterator[str]:
    for each in given:
        _only(each, "name", "value", "credential", "configMap")
        value = each.get("value", "")
        for field, mark in (("credential", "SECRET"), ("configMap", "CONFIGMAP")):
            if each.get(field):
                value = f"{mark}:{each[field]['name']},{each[field]['key']}"
                break
        else:
            if value.startswith(FROM_ELSEWHERE):
                raise NoFlag
        yield from ("-e", f"{each['name']}={value}")


def _compute(given: Fields) -> Iterator[str]:
    _only(given, *COMPUTE, "largeShmRequest", "extendedResources")
    for field, flag in COMPUTE.items():
        if given.get(field) is not None:
            yield from (flag, str(given[field]))
    yield from _switch("--large-shm", given.get("largeShmRequest"))
    for each in given.get("extendedResources") or ():
        _only(each, "resource", "quantity")
        yield from ("--extended-resource", _pair(each["resource"], each["quantity"]))


def _storage(given: Fields) -> Iterator[str]:
    _only(given, "hostPath", "pvc")
    for each in given.get("hostPath") or ():
        _only(each, "path", "mountPath", "readOnly", "mountPropagation")
        if each.get("mountPropagation", "None") != "None":
            raise NoFlag
        yield from ("-v", _mount(each["path"], each["mountPath"], each))
    for each in given.get("pvc") or ():
        _only(each, "claimName", "path", "readOnly", "existingPvc")
        if not each.get("claimName") or each.get("existingPvc") is False:
            raise NoFlag
        yield from ("--pvc", _mount(each["claimName"], each["path"], each))


def _mount(source: str, target: str, given: Fields) -> str:
    if ":" in source or ":" in target:
        raise NoFlag
    return f"{source}:{target}{':ro' if given.get('readOnly') else ''}"


def _ports(given: list[Fields]) -> Iterator[str]:
    for each in given:
        _only(each, "container", "external", "serviceType")
        kind = str(each.get("serviceType") or "ClusterIP").lower()
        if each.get("external") and kind not in ("nodeport", "loadbalancer"):
            raise NoFlag
        port = f"{each['external']}:{each['container']}" if each.get("external") else str(each["container"])
        yield from ("-s", f"{kind},port={port}")


def _tolerations(given: list[Fields]) -> Iterator[str]:
    names = ("operator", "key", "value", "effect", "seconds")
    for each in given:
        _only(each, *names)
        said = [f"{name}={_word(str(each[name]))}" for name in names if each.get(name) is not None]
        yield from ("--toleration", ",".join(said))


def _topology(given: Fields) -> Iterator[str]:
    flags = {
        "name": "--topology",
        "required": "--required-pod-topology-key",
        "preferred": "--preferred-pod-topology-key",
    }
    _only(given, *flags)
    for field, flag in flags.items():
        if given.get(field):
            yield from (flag, given[field])


def _array(given: Fields) -> Iterator[str]:
    _only(given, "indices", "parameters")
    if given.get("indices"):
        yield from ("--array", given["indices"])
    for each in given.get("parameters") or ():
        yield from ("--for", _pair(each["name"], ",".join(_word(value) or _none() for value in each["values"])))


def _none() -> str:
    raise NoFlag


def _autoscaling(given: Fields) -> Iterator[str]:
    _only(given, "minReplicas", "maxReplicas")
    least = given.get("minReplicas", 1)
    if least != given.get("maxReplicas", least) or least < 1:
        raise NoFlag
    yield from ("--replicas", str(least))


def _serving_port(given: Fields) -> Iterator[str]:
    if given.get("protocol", "http") != "http" or given.get("authorizationType", "public") != "public":
        raise NoFlag
    _only(given, "container", "protocol", "authorizationType")
    yield from ("--port", str(given["container"]))


def _preemptibility(given: str) -> Iterator[str]:
    if given != "preemptible":
        raise NoFlag
    yield "--preemptible"


# --- tables ------------------------------------------------------------------------------------------------------

FLAGS: Final = {
    "image": "-i",
    "imagePullPolicy": "--image-pull-policy",
    "workingDir": "--working-dir",
    "nodeType": "--node-type",
    "priorityClass": "--priority",
    "backoffLimit": "--backoff-limit",
    "terminationGracePeriodSeconds": "--grace-period",
    "template": "--template",
    "completions": "--completions",
    "parallelism": "--parallelism",
}
SWITCHES: Final = {"stdin": "--stdin", "tty": "--tty"}
SECONDS: Final = {"deadlineSeconds": "--time-limit", "autoDeletionTimeAfterCompletionSeconds": "--ttl-after-finish"}
LISTS: Final = {"nodePools": "--node-pools", "after": "--after"}
PAIRS: Final = {"labels": "-l", "annotations": "-a"}
COMPUTE: Final = {
    "gpu": "-g",
    "gpuMemoryRequest": "--gpu-memory",
    "migProfile": "--mig-profile",
    "cpuCoreRequest": "--cpu",
    "cpuCoreLimit": "--cpu-limit",
    "cpuMemoryRequest": "--memory",
    "cpuMemoryLimit": "--memory-limit",
}
OTHERS: Final[Mapping[str, Callable[[Any], Iterator[str]]]] = {
    "environmentVariables": _variables,
    "compute": _compute,
    "storage": _storage,
    "ports": _ports,
    "tolerations": _tolerations,
    "topology": _topology,
    "array": _array,
    "autoscaling": _autoscaling,
    "servingPort": _serving_port,
    "preemptibility": _preemptibility,
}
OF_KIND: Final = {
    "completions": TRAINING,
    "parallelism": TRAINING,
    "array": TRAINING,
    "autoscaling": INFERENCE,
    "servingPort": INFERENCE,
}
