"""The request for the flags of `runai submit`, or everything that is wrong with them. Pure.

Flags that the API has no field for are refused here by name; what the control plane refuses is reported by its flag.
No flag is ignored.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fairpool.api.limits import GPU_FIELDS
from fairpool.cli.failure import not_yet
from fairpool.cli.runai import ages, array_flags, mounts, port_flags
from fairpool.cli.runai.asset_references import both_references, reference_problems, references
from fairpool.cli.runai.port_flags import NO_CUSTOM_URL
from fairpool.model.problem import Problem
from fairpool.model.quantity import parse_gpus

CONFIG_MAP = "CONFIGMAP:"
COMMAND_LINE_MAX = 4096
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
SECRET = "SECRET:"
"""How the value of `-e` begins where it is a key of a credential."""
TOLERATION_WORDS = ("key", "operator", "value", "effect", "seconds")

NOT_YET = {
    "mps": ("--mps", "leave it out: no MPS daemon runs on the nodes; pods share a GPU with -g 0.5 all the same"),
    "custom_url": ("--custom-url", NO_CUSTOM_URL),
    "seccomp_profile": ("--seccomp-profile", ""),
}


def document(asked: Mapping[str, Any], *, project: str, cluster: str | None, command_line: str) -> dict[str, Any]:
    """The request as plain values; raises nothing, see `problems`."""
    interactive = bool(asked["interactive"])
    body: dict[str, Any] = {
        "projectId": project,
        "source": "CLI",
        "commandLine": command_line[:COMMAND_LINE_MAX].replace("\0", ""),
        "spec": _spec(asked, interactive=interactive),
    }
    name = asked["name"] or asked["named"]
    if name:
        body["name"] = name
    elif asked["name_prefix"]:
        body |= {"name": asked["name_prefix"], "useGivenNameAsPrefix": True}
    if cluster:
        body["clusterId"] = cluster
    if asked["wait_anyway"]:
        body["waitAnyway"] = True
    return body


def problems(asked: Mapping[str, Any]) -> list[Problem]:
    """Everything that is wrong and can be found without the server."""
    found: list[Problem] = []
    if asked["name"] and asked["named"]:
        what = f"the name is given twice, {asked['name']} and --name {asked['named']}"
        found.append(Problem("flag.name_twice", what, "leave one out"))
    if asked["inference"] and asked["interactive"]:
        what = "The flags --inference and --interactive cannot be used together"
        found.append(Problem("flag.two_kinds", what, ""))
    found += _gpu_problems(asked)
    policy = asked["image_pull_policy"]
    if policy is not None and policy not in PULL_POLICIES:
        what = (
            "image-pull-policy flag should be set with one of the following values of: "
            '"Always", "IfNotPresent" or "Never"'
        )
        found.append(Problem("flag.pull_policy", what, ""))
    if (asked["interactive"] or asked["inference"]) and (asked["parallelism"] or asked["completions"]):
        what = "--parallelism and --completions work only with training jobs"
        found.append(Problem("flag.sweep", what, "leave them out, or leave out --interactive and --inference"))
    found += _elastic_problems(asked)
    found += [not_yet(*said) for name, said in NOT_YET.items() if asked[name]]
    mounts.storage(asked, found)
    variables = [*asked["environment"], *asked.get("master_environment", ())]
    found += [each for each in map(variable, variables) if isinstance(each, Problem)]
    found += [each for each in map(toleration, asked["toleration"]) if isinstance(each, Problem)]
    for flag, name in (
        ("--label", "label"),
        ("--annotation", "annotation"),
        ("--extended-resource", "extended_resource"),
        ("--prefer-node", "prefer_node"),
    ):
        found += [_no_pair(flag, text) for text in asked[name] if "=" not in text.strip("=")]
    found += [each for each in (ttl(asked), time_limit(asked), array_flags.array(asked)) if isinstance(each, Problem)]
    found += array_flags.problems(asked)
    found += port_flags.problems(asked)
    found += reference_problems(asked)
    return found


def kind_of(asked: Mapping[str, Any], otherwise: str = "Training") -> str:
    """The kind of workload by flags, or `otherwise`."""
    if asked.get("framework") or asked["elastic"]:
        return "Distributed"
    return "Workspace" if asked["interactive"] else "Inference" if asked["inference"] else otherwise


# --- flags over a job file ---------------------------------------------------------------------------------------


def over(body: Mapping[str, Any], said: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A job of a file, overridden by flags; variables, labels and mounts are added."""
    merged = {**body, **{name: value for name, value in said.items() if name != "spec"}}
    mine, theirs = said["spec"], body.get("spec")
    if not isinstance(theirs, Mapping):
        return {**merged, "spec": mine if theirs is None else theirs}
    spec = {**theirs, **mine}
    for name in ("labels", "annotations", "security", "topology"):
        spec |= _both(name, theirs, mine)
    if isinstance(theirs.get("assets"), Mapping) and "assets" in mine:
        spec["assets"] = both_references(theirs["assets"], mine["assets"])
    if isinstance(theirs.get("compute"), Mapping) and "compute" in mine:
        is_gpu = any(way in mine["compute"] for way in GPU_FIELDS)
        kept = {name: value for name, value in theirs["compute"].items() if not is_gpu or name not in GPU_FIELDS}
        spec["compute"] = {**kept, **mine["compute"]}
    if isinstance(theirs.get("storage"), Mapping) and "storage" in mine:
        spec["storage"] = {
            **theirs["storage"],
            **{kind: [*(theirs["storage"].get(kind) or []), *mounts_of] for kind, mounts_of in mine["storage"].items()},
        }
    variables = theirs.get("environmentVariables")
    if isinstance(variables, list) and "environmentVariables" in mine:
        names = {each["name"] for each in mine["environmentVariables"]}
        kept_ones = [each for each in variables if not isinstance(each, Mapping) or each.get("name") not in names]
        spec["environmentVariables"] = [*kept_ones, *mine["environmentVariables"]]
    if asked["command"] and not asked["args"]:
        spec.pop("args", None)  # the command replaces all of it
    return {**merged, "spec": spec}


def _both(name: str, theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(theirs.get(name), Mapping) and name in mine:
        return {name: {**theirs[name], **mine[name]}}
    return {}


# --- the specification -------------------------------------------------------------------------------------------


def _spec(asked: Mapping[str, Any], *, interactive: bool) -> dict[str, Any]:
    pull = "Always" if asked["always_pull_image"] else "Never" if asked["local_image"] else asked["image_pull_policy"]
    tty = asked["tty"] or asked["attach"]
    spec: dict[str, Any] = {
        "image": asked["image"],
        "imagePullPolicy": pull,
        "command": list(asked["command"]) or None,
        "args": list(asked["args"]) or None,
        "workingDir": asked["working_dir"],
        "pythonEnv": os.path.abspath(asked["python_env"]) if asked["python_env"] else None,
        "environmentVariables": [each for each in map(variable, asked["environment"]) if isinstance(each, dict)],
        "compute": _compute(asked),
        "storage": mounts.storage(asked, []),
        "security": _security(asked),
        "nodePools": [name for text in asked["node_pools"] for name in text.split(",") if name],
        "nodeType": asked["node_type"],
        "tolerations": [each for each in map(toleration, asked["toleration"]) if isinstance(each, dict)],
        "nodeAffinityPreferred": [_preference(text) for text in asked["prefer_node"]],
        "topology": _given(
            name=asked["topology"],
            required=asked["required_pod_topology_key"],
            preferred=asked["preferred_pod_topology_key"],
        ),
        "labels": _mapping(asked["label"]),
        "annotations": _mapping(asked["annotation"]),
        "priorityClass": asked["priority"],
        "backoffLimit": asked["backoff_limit"],
        "autoDeletionTimeAfterCompletionSeconds": ttl(asked),
        "terminationGracePeriodSeconds": asked["grace_period"],
        "deadlineSeconds": time_limit(asked),
        "after": [name for text in asked["after"] for name in text.split(",") if name],
        "stdin": asked["stdin"] or asked["attach"] or None,
        "tty": tty or None,
        "template": asked["template"],
        "assets": references(asked),
        **port_flags.ports(asked),
    }
    if asked["preemptible"]:
        spec["preemptibility"] = "preemptible"
    if asked.get("framework"):
        spec |= _gang(asked, {name: value for name, value in spec.items() if value not in (None, [], {})})
    elif asked["elastic"]:
        # Equal pods that are one group: it starts with one of them, and grows and shrinks with what is free.
        spec |= {"numWorkers": asked["parallelism"], "minReplicas": 1, "noMaster": True}
    elif not interactive and not asked["inference"]:
        spec |= {"parallelism": asked["parallelism"], "completions": asked["completions"]}
        spec |= _given(array=array_flags.array(asked), parallelism=array_flags.at_a_time(asked))
    if asked["inference"]:
        spec |= _inference(asked)
    return {name: value for name, value in spec.items() if value not in (None, [], {})}


def _gang(asked: Mapping[str, Any], worker: dict[str, Any]) -> dict[str, Any]:
    """A master and workers."""
    workers = asked["workers"] or asked["max_replicas"] or 1
    own = {
        "environmentVariables": [each for each in map(variable, asked["master_environment"]) if isinstance(each, dict)],
        "compute": _given(extendedResources=_resources(asked["master_extended_resource"]) or None),
    }
    master = None if asked["no_master"] else _master_spec(asked, worker, own)
    is_mpi = asked["framework"] == "MPI"
    return {
        "distributedFramework": asked["framework"],
        "numWorkers": workers,
        "minReplicas": asked["min_replicas"],
        "maxReplicas": asked["max_replicas"],
        "slotsPerWorker": asked["slots_per_worker"],
        "cleanPodPolicy": asked["clean_pod_policy"],
        "noMaster": asked["no_master"] or None,
        "masterSpec": master,
        "masterNoPvcs": asked["master_no_pvcs"] or None,
        **({"command": None, "args": None} if is_mpi else {}),  # the workers run what the launcher starts in them
    }


def _master_spec(asked: Mapping[str, Any], worker: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The master: like a worker, except for the `--master-…` flags (`own`: its variables and resources)."""
    kept = ("image", "imagePullPolicy", "command", "args", "workingDir", "pythonEnv")
    spec: dict[str, Any] = {name: worker[name] for name in kept if name in worker}
    if asked["master_args"] is not None:
        spec["args"] = shlex.split(asked["master_args"])
    compute = {**worker.get("compute", {}), **own.get("compute", {})}
    if asked["master_gpu"] is not None or asked["framework"] == "MPI":
        compute = {name: value for name, value in compute.items() if name not in GPU_FIELDS}
        compute |= {"gpu": asked["master_gpu"]} if asked["master_gpu"] is not None else {}
    variables = [*worker.get("environmentVariables", []), *own.get("environmentVariables", [])]
    return {**spec, "compute": compute, "environmentVariables": variables}


def _resources(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"resource": name, "quantity": int(amount) if amount.isdigit() else amount}
        for name, amount in _mapping(texts).items()
    ]


def _compute(asked: Mapping[str, Any]) -> dict[str, Any]:
    resources = _resources(asked["extended_resource"])
    return _given(
        gpu=asked["gpu"],
        gpuMemoryRequest=asked["gpu_memory"],
        migProfile=asked["mig_profile"],
        cpuCoreRequest=asked["cpu"],
        cpuCoreLimit=asked["cpu_limit"],
        cpuMemoryRequest=asked["memory"],
        cpuMemoryLimit=asked["memory_limit"],
        largeShmRequest=asked["large_shm"] or None,
        extendedResources=resources or None,
        **asked.get("compute", {}),
    )


def _security(asked: Mapping[str, Any]) -> dict[str, Any]:
    as_user = asked["run_as_user"]
    escalation = asked["allow_privilege_escalation"]
    return _given(
        runAsUser=as_user or None,
        runAsUid=os.getuid() if as_user else None,
        runAsGid=os.getgid() if as_user else None,
        createHomeDir=asked["create_home_dir"],
        capabilities=list(asked["add_capability"]) or None,
        allowPrivilegeEscalation=False if asked["prevent_privilege_escalation"] else escalation,
        hostIpc=asked["host_ipc"] or None,
        hostNetwork=asked["host_network"] or None,
    )


def _inference(asked: Mapping[str, Any]) -> dict[str, Any]:
    replicas = asked["replicas"] or 1
    ports = [container for container, _ in map(port_flags.port, asked["port"]) if container]
    # The serving port is exposed by the gateway in any case.
    mapped = [
        each for each in port_flags.ports(asked)["ports"] if each.get("serviceType") in ("NodePort", "LoadBalancer")
    ]
    spec: dict[str, Any] = {"autoscaling": {"minReplicas": replicas, "maxReplicas": replicas}, "ports": mapped or None}
    return {**spec, "servingPort": {"container": ports[0]}} if ports else spec


# --- single flags ------------------------------------------------------------------------------------------------


def _elastic_problems(asked: Mapping[str, Any]) -> list[Problem]:
    if not asked["elastic"]:
        return []
    others = {
        "--interactive": asked["interactive"],
        "--inference": asked["inference"],
        "--completions": asked["completions"],
        "--array": asked["array"] or asked["array_for"] or asked["array_args"],
    }
    found = [
        Problem("flag.elastic", f"--elastic and {name} cannot be used together", "leave one out")
        for name, given in others.items()
        if given
    ]
    if asked["parallelism"] is None:
        what = "--elastic needs the largest number of pods"
        found.append(Problem("flag.elastic", what, "add --parallelism N: it starts with one pod and grows to N"))
    return found


def _gpu_problems(asked: Mapping[str, Any]) -> list[Problem]:
    found = []
    flags = {"gpu": asked["gpu"], "gpu-memory": asked["gpu_memory"], "mig": asked["mig_profile"]}
    used = [name for name, value in flags.items() if value is not None]
    if len(used) > 1:
        what = f"unexpected to accept both {used[0]} and {used[1]} flag. please use only one of them"
        found.append(Problem("gpu.several_ways", what, ""))
    wrong = parse_gpus(asked["gpu"]) if asked["gpu"] is not None else 0
    return [*found, wrong] if isinstance(wrong, Problem) else found


def variable(text: str) -> dict[str, Any] | Problem:
    """`KEY=VALUE`, `KEY=SECRET:CREDENTIAL,KEY`, `KEY=CONFIGMAP:NAME,KEY`, or as with Docker `KEY` alone for its value
    on this machine."""
    name, equals, value = text.partition("=")
    if not name:
        return Problem("flag.environment", f"-e {text!r} has no name", "write -e KEY=VALUE")
    if value.startswith(SECRET):
        credential, comma, key = value.removeprefix(SECRET).partition(",")
        if not credential or not comma or not key:
            return Problem(
                "flag.environment", f"-e {text!r} names no key of a credential", f"write -e {name}=SECRET:NAME,KEY"
            )
        return {"name": name, "credential": {"name": credential, "key": key}}
    if value.startswith(CONFIG_MAP):
        config_map, comma, key = value.removeprefix(CONFIG_MAP).partition(",")
        if not config_map or not comma or not key:
            what = f"-e {text}: name the config map and its key"
            return Problem("flag.environment", what, f"write {CONFIG_MAP}NAME,KEY")
        return {"name": name, "configMap": {"name": config_map, "key": key}}
    if not equals:
        if name not in os.environ:
            what = f"-e {name} has no value, and the variable is not set on this machine"
            return Problem("flag.environment", what, f"write -e {name}=VALUE")
        value = os.environ[name]
    return {"name": name, "value": value}


def _preference(text: str) -> dict[str, Any]:
    """One of several equal preferences: nodes that meet more of them are better."""
    key, _, value = text.partition("=")
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"weight": 1, "preference": {"matchExpressions": [expression]}}


def toleration(text: str) -> dict[str, Any] | Problem:
    """`operator=Equal|Exists,key=,[value=],[effect=],[seconds=]`."""
    said = mounts.pairs("--toleration", text, TOLERATION_WORDS)
    if isinstance(said, Problem):
        return said
    seconds = said.pop("seconds", None)
    if seconds is not None and not seconds.isdigit():
        return Problem(
            "flag.toleration", f"--toleration: {seconds!r} is not a valid number of seconds", "write seconds=60"
        )
    return {**said, **({"seconds": int(seconds)} if seconds is not None else {})}


def ttl(asked: Mapping[str, Any]) -> int | Problem | None:
    """How long a finished job is kept."""
    text = asked["ttl_after_finish"]
    return None if text is None else ages.seconds(text)


def time_limit(asked: Mapping[str, Any]) -> int | Problem | None:
    """How long it may run, from its first start on."""
    text = asked["time_limit"]
    found = None if text is None else ages.seconds(text)
    if isinstance(found, int) and found < 1:
        return Problem("value.not_understood", f"--time-limit {text!r} must be longer than 0", "write 30m, 2h or 1h30m")
    return found


def _mapping(texts: Sequence[str]) -> dict[str, str]:
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def _no_pair(flag: str, text: str) -> Problem:
    return Problem("flag.no_pair", f"{flag} {text!r} is not KEY=VALUE", f"write {flag} KEY=VALUE")


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
