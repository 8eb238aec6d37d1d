"""Carries out the steps of a scenario when they are due.

Whatever is done here may be done twice, because a process that was killed repeats what it did last. What cannot be
repeated (a resume, a reboot) is marked before it is done, with how the world was: if it is different, it was done.
"""

from __future__ import annotations

from fairpool.model.ids import SECOND_MS, Instant, WorkloadId
from fairpool.model.mentions import in_full
from fairpool.model.node import DRAIN
from fairpool.model.organization import NodeOverrides
from fairpool.model.problem import Problem
from fairpool.model.status import WorkloadPhase
from fairpool.simulation.checkpoint import Check, Checkpoint
from fairpool.simulation.expectation import compare
from fairpool.simulation.scenario import (
    START,
    Action,
    Await,
    Condition,
    Expect,
    NodeEvent,
    NodeStep,
    Operation,
    Pause,
    Resize,
    ScenarioPhase,
    SetQuota,
    SubmitStep,
    Until,
    WorkloadStep,
)
from fairpool.simulation.simulated_cluster import SimulatedCluster

OVERRIDES = {
    NodeEvent.CORDON: NodeOverrides(cordoned=True),
    NodeEvent.DRAIN: NodeOverrides(cordoned=True, taints=(DRAIN,)),
}
PHASES = {
    Condition.RUNNING: WorkloadPhase.RUNNING,
    Condition.PENDING: WorkloadPhase.PENDING,
    Condition.STOPPED: WorkloadPhase.STOPPED,
    Condition.COMPLETED: WorkloadPhase.COMPLETED,
    Condition.FAILED: WorkloadPhase.FAILED,
}


class Script:
    """The progress of one scenario through its steps."""

    def __init__(self, cluster: SimulatedCluster, checkpoint: Checkpoint) -> None:
        self._cluster, self._checkpoint = cluster, checkpoint
        self._actions: list[tuple[ScenarioPhase, Action]] = list(cluster.scenario.actions())
        if checkpoint.position.step == 0:
            cluster.control.declare(cluster.scenario.organization, cluster.scenario.followers)

    @property
    def is_over(self) -> bool:
        return self._checkpoint.position.done

    @property
    def waits_for_condition(self) -> bool:
        """Whether the next step waits for a condition, not for a time."""
        position = self._checkpoint.position
        return position.step < len(self._actions) and isinstance(self._actions[position.step][1], Await)

    @property
    def part_done(self) -> float:
        return self._checkpoint.position.step / max(len(self._actions), 1)

    def advance(self) -> bool:
        """Do what is due. True: something was done, and the loop must run before the next step."""
        position = self._checkpoint.position
        while not position.done:
            if position.step == len(self._actions):
                position.done = True
                break
            phase, action = self._actions[position.step]
            if isinstance(action, Await | Expect) and position.in_batch:
                break
            if not self._is_done(phase, action):
                break
        moved, position.in_batch = position.in_batch, False
        if moved or position.done:
            self._checkpoint.keep()
        return moved

    def wakes_at(self) -> Instant | None:
        """When time alone lets the script continue; None: when something happens."""
        position = self._checkpoint.position
        if position.step == len(self._actions):
            return None
        _, action = self._actions[position.step]
        match action:
            case Until():
                return _after(START, action.offset_s)
            case Pause():
                return _after(position.since, action.seconds)
            case Await():
                return _after(position.since, action.within_s)
        return position.now

    def give_up(self) -> None:
        """Nothing will happen any more, so the condition that is waited for will never be met."""
        phase, action = self._actions[self._checkpoint.position.step]
        assert isinstance(action, Await), f"{action} waits only for a time"
        self._fail_wait(phase, action)
        self._checkpoint.keep()

    # --- one action ---

    def _is_done(self, phase: ScenarioPhase, action: Action) -> bool:
        """False: not yet."""
        match action:
            case Until() | Pause():
                due = self.wakes_at()
                if due is not None and self._cluster.now < due:
                    return False
            case Await():
                if not self._is_so(action):
                    return self._waited_too_long(phase, action)
            case Expect():
                self._checkpoint.position.checks += [
                    compare(self._cluster, phase.name, each) for each in action.expected
                ]
            case _:
                self._checkpoint.position.in_batch = True
                self._do(phase, action)
        self._next_action()
        return True

    def _next_action(self) -> None:
        position = self._checkpoint.position
        position.step, position.since, position.mark = position.step + 1, self._cluster.now, ""
        self._checkpoint.keep()

    def _do(self, phase: ScenarioPhase, action: SubmitStep | WorkloadStep | Resize | SetQuota | NodeStep) -> None:
        position = self._checkpoint.position
        mark = self._mark(action)
        if position.mark and position.mark != mark:
            return
        if mark:
            position.mark = mark
            self._checkpoint.keep()
        problem = self._problem_with(action)
        if problem is not None:
            position.checks.append(Check(phase.name, str(action), "done", problem.what, False, self._cluster.now))

    def _mark(self, action: SubmitStep | WorkloadStep | Resize | SetQuota | NodeStep) -> str:
        """How what it changes is now, for those actions that must not be repeated."""
        if isinstance(action, WorkloadStep) and action.operation is Operation.RESUME:
            spec = self._cluster.control.spec(action.workload)
            return f"run {spec.run}" if spec is not None else ""
        if (
            isinstance(action, NodeStep)
            and action.event is NodeEvent.REBOOT
            and action.node in self._cluster.engine.nodes
        ):
            return f"boot {self._cluster.engine.host(action.node).boot}"
        return ""

    def _problem_with(self, action: SubmitStep | WorkloadStep | Resize | SetQuota | NodeStep) -> Problem | None:
        """Do it; the answer is why it could not be done."""
        control = self._cluster.control
        match action:
            case SubmitStep():
                return self._cluster.submit(action.spec)
            case WorkloadStep(operation=Operation.DELETE):
                return control.delete(action.workload)
            case WorkloadStep(operation=Operation.SUSPEND):
                return control.suspend(action.workload)
            case WorkloadStep():
                self._cluster.watch_for_end_of(action.workload)
                return control.resume(action.workload)
            case Resize():
                return control.resize(action.workload, pods=action.pods, minimum=action.minimum)
            case SetQuota():
                return self._set_quota(action)
        return self._change_node(action)

    def _set_quota(self, action: SetQuota) -> Problem | None:
        change = (self._cluster.now, str(action.queue), str(action.pool), action.quota_milli)
        if change not in self._checkpoint.position.quotas:
            self._checkpoint.position.quotas.append(change)
        return self._cluster.control.set_quota(action.queue, action.quota_milli, action.pool)

    def _change_node(self, action: NodeStep) -> Problem | None:
        engine, control, name = self._cluster.engine, self._cluster.control, action.node
        if name not in engine.nodes and action.event not in (NodeEvent.RETURN, NodeEvent.REMOVE):
            return Problem("node.gone", f"the node {name} is not there", "let it return first")
        match action.event:
            case NodeEvent.CORDON | NodeEvent.DRAIN | NodeEvent.UNCORDON:
                return control.override_node(name, OVERRIDES.get(action.event, NodeOverrides()))
            case NodeEvent.LOSE:
                engine.silence(name)
            case NodeEvent.REBOOT:
                engine.reboot(name, action.down_s)
            case NodeEvent.REMOVE:
                if name in engine.nodes:
                    engine.remove_node(name)
            case NodeEvent.RETURN:
                control.override_node(name, NodeOverrides())
                if name in engine.nodes:
                    engine.end_silence(name)
                else:
                    engine.add_node(next(node for node in self._cluster.scenario.nodes if node.name == name))
        return None

    # --- waiting ---

    def _is_so(self, action: Await) -> bool:
        cluster = self._cluster
        match action.condition:
            case Condition.IDLE:
                return cluster.is_idle()
            case Condition.SETTLED:
                return cluster.is_settled()
            case Condition.GONE:
                return not any(cluster.is_declared(each) or cluster.report(each) for each in action.workloads)
        return all(self._phase_of(each) is PHASES[action.condition] for each in action.workloads)

    def _phase_of(self, workload: WorkloadId) -> WorkloadPhase | None:
        report = self._cluster.report(workload)
        return None if report is None else report.phase

    def _waited_too_long(self, phase: ScenarioPhase, action: Await) -> bool:
        due = self.wakes_at()
        if due is None or self._cluster.now < due:
            return False
        if action.required:
            self._fail_wait(phase, action)
            return False
        self._next_action()
        return True

    def _fail_wait(self, phase: ScenarioPhase, action: Await) -> None:
        position = self._checkpoint.position
        if not action.required:
            self._next_action()
            return
        reached = self._phases_of(action)
        position.checks.append(Check(phase.name, str(action), str(action.condition), reached, False, self._cluster.now))
        position.stopped = f"{action}: the condition was not met"
        position.done = True

    def _phases_of(self, action: Await) -> str:
        said = []
        for each in action.workloads:
            report = self._cluster.report(each)
            if report is None:
                said.append(f"{each} is gone")
            elif report.phase is not PHASES.get(action.condition):
                said.append(
                    f"{each} is {report.phase.value}" + (f", {in_full(report.detail)}" if report.detail else "")
                )
        return "; ".join(said) or "the condition was never met"


def _after(moment: Instant, seconds: float) -> Instant:
    return Instant(moment + round(seconds * SECOND_MS))
