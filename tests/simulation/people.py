"""What people do to a simulated cluster beside submitting: change their minds, quotas and rules, take nodes away."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from fairpool.control.stand_in import StandIn
from fairpool.model.ids import NodeName, PoolName, QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL, Taint, TaintEffect
from fairpool.model.organization import NodeOverrides, ProjectRules, Queue
from fairpool.model.spec import Arrangement, DesiredState, WorkloadSpec
from fairpool.model.status import HOLDS_NOTHING

DRAIN = Taint("runai", "drain", TaintEffect.NO_EXECUTE)


class People:
    """Researchers and administrators, by dice."""

    def __init__(self, control: StandIn, nodes: list[NodeName], dice: Random) -> None:
        self.control = control
        self._nodes, self._dice = nodes, dice
        self._renamed = 0
        self._dropped: list[tuple[PoolName, Queue]] = []

    def act(self) -> None:
        """Somebody does something."""
        of_researchers = [self._suspend, self._resume, self._resume, self._delete, self._resize]
        of_administrators = [self._quota, self._mark, self._unmark, self._rename, self._drop_queue, self._rules]
        self._dice.choice([*of_researchers, *of_administrators])()

    def calm(self) -> None:
        """Everything that was only suspended goes on, and every node but perhaps one is back in service."""
        organization = self.control.organization()
        self.control.set_organization(replace(organization, marks={}))
        if self._dice.random() < 0.4:
            self._mark()
        for spec in self.control.specs().values():
            if spec.want is DesiredState.STOP:
                self.control.resume(spec.id)

    def _some(self) -> WorkloadSpec | None:
        specs = self.control.specs()
        return specs[self._dice.choice(sorted(specs))] if specs else None

    def _suspend(self) -> None:
        spec = self._some()
        if spec is not None and spec.want is DesiredState.RUN:
            self.control.suspend(spec.id)

    def _resume(self) -> None:
        for workload in sorted(self.control.specs()):
            spec, level = self.control.spec(workload), self.control.workload(workload)
            halted = level is not None and level.phase in HOLDS_NOTHING
            if spec is not None and (spec.want is DesiredState.STOP or halted) and self._dice.random() < 0.5:
                self.control.resume(workload)
                return

    def _delete(self) -> None:
        spec = self._some()
        if spec is not None and self._dice.random() < 0.4:
            # Other dice: what people do beside stays what it was.
            self.control.delete(spec.id, force=Random(f"{spec.id} {spec.want}").random() < 0.3)

    def _resize(self) -> None:
        spec = self._some()
        if spec is None or (spec.pods == 1 and spec.arrangement is Arrangement.TOGETHER):
            return
        pods = max(1, spec.pods + self._dice.choice((-2, -1, 1, 2)))
        minimum = min(spec.minimum, pods) if spec.minimum is not None else None
        self.control.resize(WorkloadId(spec.id), pods=pods, minimum=minimum)

    def _queue(self) -> QueueId:
        return self._dice.choice(self._leaves())

    def _leaves(self) -> list[QueueId]:
        queues = self.control.organization().queues[DEFAULT_POOL]
        return sorted({queue.id for queue in queues} - {queue.parent for queue in queues})

    def _quota(self) -> None:
        pool = self._dice.choice(sorted(self.control.organization().queues))
        self.control.set_quota(self._queue(), 1000 * self._dice.randint(0, 8), pool)

    def _rename(self) -> None:
        if self._dice.random() < 0.3:
            self._renamed += 1
            self.control.rename_queue(self._queue(), QueueId(f"renamed-{self._renamed}"))

    def _drop_queue(self) -> None:
        """A project goes, with whatever runs in it; or one that went comes back."""
        organization = self.control.organization()
        rows = dict(organization.queues)
        if self._dropped:
            names = {queue.id for queue in rows[DEFAULT_POOL]}
            for pool, queue in self._dropped:
                known = queue if queue.parent in names else replace(queue, parent=None)
                rows[pool] = (*rows[pool], known)
            self._dropped = []
        elif len(self._leaves()) > 1 and self._dice.random() < 0.5:
            going = self._queue()
            self._dropped = [(pool, queue) for pool, row in rows.items() for queue in row if queue.id == going]
            rows = {pool: tuple(queue for queue in row if queue.id != going) for pool, row in rows.items()}
        self.control.set_organization(replace(organization, queues=rows))

    def _rules(self) -> None:
        organization = self.control.organization()
        rules = ProjectRules(interactive_limit_s=self._dice.choice((None, 300, 600, 1200)))
        self.control.set_organization(replace(organization, rules={**organization.rules, self._queue(): rules}))

    def _mark(self) -> None:
        organization = self.control.organization()
        name = self._dice.choice(self._nodes)
        marks = NodeOverrides(taints=(DRAIN,)) if self._dice.random() < 0.5 else NodeOverrides(cordoned=True)
        self.control.set_organization(replace(organization, marks={**organization.marks, name: marks}))

    def _unmark(self) -> None:
        organization = self.control.organization()
        self.control.set_organization(replace(organization, marks={}))
