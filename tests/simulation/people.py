"""What people do to a simulated cluster beside submitting: change their minds, change quotas, take nodes away."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from fairpool.control.stand_in import StandIn
from fairpool.model.ids import NodeName, QueueId, WorkloadId
from fairpool.model.node import Taint, TaintEffect
from fairpool.model.organization import NodeMarks
from fairpool.model.spec import Arrangement, Want, WorkloadSpec
from fairpool.model.status import HOLDS_NOTHING

DRAIN = Taint("runai", "drain", TaintEffect.NO_EXECUTE)


class People:
    """Researchers and administrators, by dice."""

    def __init__(self, control: StandIn, nodes: list[NodeName], dice: Random) -> None:
        self._control, self._nodes, self._dice = control, nodes, dice
        self._renamed = 0

    def act(self) -> None:
        """Somebody does something."""
        of_researchers = [self._suspend, self._resume, self._resume, self._delete, self._resize]
        of_administrators = [self._quota, self._mark, self._unmark, self._rename]
        self._dice.choice([*of_researchers, *of_administrators])()

    def calm(self) -> None:
        """Everything that was only suspended goes on, and every node is back in service."""
        organization = self._control.organization()
        self._control.set_organization(replace(organization, marks={}))
        for spec in self._control.specs().values():
            if spec.want is Want.STOP:
                self._control.resume(spec.id)

    def _some(self) -> WorkloadSpec | None:
        specs = self._control.specs()
        return specs[self._dice.choice(sorted(specs))] if specs else None

    def _suspend(self) -> None:
        spec = self._some()
        if spec is not None and spec.want is Want.RUN:
            self._control.suspend(spec.id)

    def _resume(self) -> None:
        for workload in sorted(self._control.specs()):
            spec, level = self._control.spec(workload), self._control.workload(workload)
            halted = level is not None and level.phase in HOLDS_NOTHING
            if spec is not None and (spec.want is Want.STOP or halted) and self._dice.random() < 0.5:
                self._control.resume(workload)
                return

    def _delete(self) -> None:
        spec = self._some()
        if spec is not None and self._dice.random() < 0.4:
            self._control.delete(spec.id)

    def _resize(self) -> None:
        spec = self._some()
        if spec is None or (spec.pods == 1 and spec.arrangement is Arrangement.TOGETHER):
            return
        pods = max(1, spec.pods + self._dice.choice((-2, -1, 1, 2)))
        minimum = min(spec.minimum, pods) if spec.minimum is not None else None
        self._control.resize(WorkloadId(spec.id), pods=pods, minimum=minimum)

    def _queue(self) -> QueueId:
        queues = next(iter(self._control.organization().queues.values()))
        leaves = {queue.id for queue in queues} - {queue.parent for queue in queues}
        return self._dice.choice(sorted(leaves))

    def _quota(self) -> None:
        self._control.set_quota(self._queue(), 1000 * self._dice.randint(0, 8))

    def _rename(self) -> None:
        if self._dice.random() < 0.3:
            self._renamed += 1
            self._control.rename_queue(self._queue(), QueueId(f"renamed-{self._renamed}"))

    def _mark(self) -> None:
        organization = self._control.organization()
        name = self._dice.choice(self._nodes)
        marks = NodeMarks(taints=(DRAIN,)) if self._dice.random() < 0.5 else NodeMarks(cordoned=True)
        self._control.set_organization(replace(organization, marks={**organization.marks, name: marks}))

    def _unmark(self) -> None:
        organization = self._control.organization()
        self._control.set_organization(replace(organization, marks={}))
