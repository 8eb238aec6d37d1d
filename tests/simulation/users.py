"""Random actions of users and administrators, other than submitting: suspend, resize, delete, quotas, rules, drains."""

from __future__ import annotations

from random import Random

from fairpool.api.organization import ProjectRequest
from fairpool.model.ids import NodeName, QueueId, WorkloadId
from fairpool.model.node import Taint, TaintEffect
from fairpool.model.organization import NodeOverrides, ProjectRules
from fairpool.model.spec import Arrangement, DesiredState, WorkloadSpec
from fairpool.model.status import HOLDS_NOTHING
from fairpool.simulation.control_driver import ControlDriver

DRAIN = Taint("runai", "drain", TaintEffect.NO_EXECUTE)


class RandomUsers:
    """Researchers and administrators with random actions."""

    def __init__(self, control: ControlDriver, nodes: list[NodeName], rng: Random) -> None:
        self.control = control
        self._nodes, self._rng = nodes, rng
        self._deleted: ProjectRequest | None = None

    def act(self) -> None:
        """One random action."""
        of_researchers = [self._suspend, self._resume, self._resume, self._delete, self._resize]
        of_administrators = [self._quota, self._mark, self._unmark, self._move, self._delete_project, self._rules]
        self._rng.choice([*of_researchers, *of_administrators])()

    def calm(self) -> None:
        """Everything that was only suspended goes on, and every node but perhaps one is back in service."""
        self._unmark()
        if self._rng.random() < 0.4:
            self._mark()
        for spec in self.control.specs().values():
            if spec.desired_state is DesiredState.STOP:
                self.control.resume(spec.id)

    def _some(self) -> WorkloadSpec | None:
        specs = self.control.specs()
        return specs[self._rng.choice(sorted(specs))] if specs else None

    def _suspend(self) -> None:
        spec = self._some()
        if spec is not None and spec.desired_state is DesiredState.RUN:
            self.control.suspend(spec.id)

    def _resume(self) -> None:
        for workload in sorted(self.control.specs()):
            spec, report = self.control.spec(workload), self.control.workload(workload)
            halted = report is not None and report.phase in HOLDS_NOTHING
            if spec is not None and (spec.desired_state is DesiredState.STOP or halted) and self._rng.random() < 0.5:
                self.control.resume(workload)
                return

    def _delete(self) -> None:
        spec = self._some()
        if spec is not None and self._rng.random() < 0.4:
            # A generator of its own: the other actions of a seed stay what they were.
            self.control.delete(spec.id, force=Random(f"{spec.id} {spec.desired_state}").random() < 0.3)

    def _resize(self) -> None:
        spec = self._some()
        if spec is None or (spec.pods == 1 and spec.arrangement is Arrangement.TOGETHER):
            return
        pods = max(1, spec.pods + self._rng.choice((-2, -1, 1, 2)))
        minimum = min(spec.minimum, pods) if spec.minimum is not None else None
        self.control.resize(WorkloadId(spec.id), pods=pods, minimum=minimum)

    def _queue(self) -> QueueId:
        return self._rng.choice(self.control.projects())

    def _quota(self) -> None:
        pool = self._rng.choice(sorted(self.control.organization().queues))
        self.control.set_quota(self._queue(), 1000 * self._rng.randint(0, 8), pool)

    def _move(self) -> None:
        """A project goes to another department, with whatever runs in it."""
        departments = self.control.departments()
        if len(departments) > 1 and self._rng.random() < 0.3:
            self.control.set_department(self._queue(), self._rng.choice(departments))

    def _delete_project(self) -> None:
        """A project goes, with whatever runs in it unless that moves elsewhere; or one that went comes back."""
        if self._deleted is not None:
            if self.control.add_project(self._deleted) is None:  # else its last pods are still there
                self._deleted = None
        elif len(self.control.projects()) > 1 and self._rng.random() < 0.5:
            going = self._queue()
            self._deleted = self.control.project(going)
            target = self._queue()
            self.control.delete_project(going, None if target == going else target)

    def _rules(self) -> None:
        rules = ProjectRules(interactive_limit_s=self._rng.choice((None, 300, 600, 1200)))
        self.control.set_rules(self._queue(), rules)

    def _mark(self) -> None:
        name = self._rng.choice(self._nodes)
        overrides = NodeOverrides(taints=(DRAIN,)) if self._rng.random() < 0.5 else NodeOverrides(cordoned=True)
        self.control.override_node(name, overrides)

    def _unmark(self) -> None:
        for node in self.control.organization().node_overrides:
            self.control.override_node(node, NodeOverrides())
