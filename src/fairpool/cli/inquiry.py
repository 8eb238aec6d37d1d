"""`fairpool plan --explain`: one pod group, its queues, and where it starts or why it waits."""

from __future__ import annotations

from collections import Counter

from fairpool.cli.report import eviction_rows, moment_text, place_rows, queue_rows
from fairpool.cli.screen import Screen
from fairpool.model.ids import GroupId, QueueId
from fairpool.model.quantity import gpus_text
from fairpool.model.workload import GpuKind, GpuRequest, Pod, PodGroup, PodShape
from fairpool.replay.planned import Replay, counted, listed
from fairpool.scheduler.decision import Plan
from fairpool.scheduler.explain import explain, explain_eviction
from fairpool.scheduler.snapshot import Snapshot


def draw(screen: Screen, replayed: Replay, name: GroupId) -> None:
    """Everything about one group of the snapshot."""
    group = replayed.groups[name]
    snapshot, plan = replayed.snapshot, only(replayed.plan, name)
    pods = [pod for pod in snapshot.pods if pod.group == name]
    screen.title(f"Group {name}")
    screen.facts(_facts(snapshot, group, pods))
    screen.title("Decision")
    for sentence in _sentences(replayed.plan, name, pods):
        screen.text(sentence, indent="  ")
    placed = [*place_rows(plan.binds), *place_rows(plan.promises)]
    if placed:
        screen.title("Placement")
        screen.table(("GROUP", "PODS", "NODE", "DEVICES"), placed)
    paid = taken_for(replayed.plan, name)
    if paid.evictions:
        screen.title("Preempted for it")
        screen.table(("GROUP", "PODS", "NODE", "WHY"), eviction_rows(paid))
    path = queue_path(snapshot, group.queue)
    if rows := queue_rows(replayed, path):
        screen.title("Queues (GPUs)")
        screen.table(("QUEUE", "QUOTA", "FAIR SHARE", "HELD NOW", "HELD AFTER"), rows)


def only(plan: Plan, name: GroupId) -> Plan:
    """The part of a plan that is about one group."""
    return Plan(
        binds=tuple(each for each in plan.binds if each.group == name),
        promises=tuple(each for each in plan.promises if each.group == name),
        evictions=tuple(each for each in plan.evictions if each.group == name),
        withdrawals=tuple(each for each in plan.withdrawals if each.group == name),
        verdicts={group: verdict for group, verdict in plan.verdicts.items() if group == name},
    )


def taken_for(plan: Plan, name: GroupId) -> Plan:
    """The part of a plan that makes room for one group."""
    return Plan(evictions=tuple(each for each in plan.evictions if each.reason.winner == name))


def queue_path(snapshot: Snapshot, queue: QueueId) -> list[QueueId]:
    """A queue and those above it."""
    parents = {each.id: each.parent for each in snapshot.queues}
    path: list[QueueId] = []
    at: QueueId | None = queue
    while at is not None and at in parents and at not in path:
        path.append(at)
        at = parents[at]
    return path


def _facts(snapshot: Snapshot, group: PodGroup, pods: list[Pod]) -> list[tuple[str, str]]:
    rule = snapshot.policy.rule_for(group.kind, group.priority, group.preemptible)
    sets = group.tree.all_pod_sets()
    needs = listed([str(each.minimum) if len(sets) == 1 else f"{each.minimum} of {each.name}" for each in sets])
    shapes = Counter(request_text(pod.shape) for pod in pods)
    facts = [
        ("project", " in ".join(queue_path(snapshot, group.queue)) or f"{group.queue}, which does not exist"),
        ("kind", f"{group.kind}, {'preemptible' if rule.preemptible else 'not preemptible'}, priority {rule.priority}"),
        ("created", moment_text(group.created_at)),
        ("needs", f"{needs} of its {counted(len(pods), 'pod')} to start" if len(pods) > 1 else "its pod to start"),
        *(
            ("asks for" if number == 0 else "", f"{text}{_times(many, len(pods))}")
            for number, (text, many) in enumerate(sorted(shapes.items()))
        ),
    ]
    phases = Counter(pod.phase.value for pod in pods)
    facts.append(("pods", listed([f"{many} {phase}" for phase, many in sorted(phases.items())]) or "none"))
    return facts


def _times(many: int, pods: int) -> str:
    return "" if pods == 1 else f" for each of {many}"


def request_text(shape: PodShape) -> str:
    """`2 GPUs, 4 CPUs, 16 GB`."""
    parts = [_gpu_text(shape.gpu), f"{gpus_text(shape.cpu_milli)} CPU{'' if 0 < shape.cpu_milli <= 1000 else 's'}"]
    if shape.memory_bytes:
        parts.append(f"{memory_text(shape.memory_bytes)} of memory")
    parts += [f"{amount} {name}" for name, amount in shape.extended]
    if shape.node_rules:
        parts.append("on nodes with " + " or ".join(", ".join(map(str, rules)) for rules in shape.node_rules))
    return ", ".join(parts)


def memory_text(amount: int) -> str:
    """`68.7 GB`, `512 MB`, `64 bytes`."""
    size, unit = next(
        (
            (size, unit)
            for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
            if amount >= size
        ),
        (1, "byte" if amount == 1 else "bytes"),
    )
    return f"{amount / size:.1f}".removesuffix(".0") + f" {unit}"


def _gpu_text(gpu: GpuRequest) -> str:
    match gpu.kind:
        case GpuKind.NONE:
            return "no GPU"
        case GpuKind.WHOLE:
            return counted(gpu.devices, "GPU")
        case GpuKind.MIG:
            return ", ".join(f"{amount} x {profile}" for profile, amount in gpu.mig)
    part = f"{gpu.memory_mib} MiB of a GPU" if gpu.memory_mib else f"{gpus_text(gpu.portion_milli)} GPU"
    return part if gpu.devices == 1 else f"{gpu.devices} x {part}"


def _sentences(plan: Plan, name: GroupId, pods: list[Pod]) -> list[str]:
    """What is decided about it; one line a reason."""
    mine = only(plan, name)
    sentences = []
    if mine.binds:
        sentences.append(f"{counted(len(mine.binds), 'pod')} of {len(pods)} {_verb(len(mine.binds), 'start')} now.")
    reasons = Counter(explain_eviction(each) for each in mine.evictions)
    sentences += [_taken(why, many) for why, many in reasons.items()]
    if name in mine.verdicts:
        verdict = mine.verdicts[name]
        said = explain(verdict)
        sentences.append(f"{said[0].upper()}{said[1:]}.")
    sentences += [f"The promise of {each.node} to {each.pod} is given up: {each.why}." for each in mine.withdrawals]
    return sentences or ["No change for this group."]


def _taken(why: str, many: int) -> str:
    """`1 pod is preempted for tuning: ...`, or `...: moves to n2`."""
    mark = "" if why.startswith("for ") else ":"
    return f"{counted(many, 'pod')} {'is' if many == 1 else 'are'} preempted{mark} {why}."


def _verb(number: int, verb: str) -> str:
    return verb + ("s" if number == 1 else "")
