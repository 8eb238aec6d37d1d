"""The calls of a cluster to its control plane elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from fairpool.api.clusters import ControlPlaneUnreachable
from fairpool.model.ids import Revision
from fairpool.platform.remote_control import ControlTarget, Membership, RemoteControl


@dataclass
class Answers:
    """A control plane that answers, or is away."""

    is_away: bool = False
    returns: list[str] = field(default_factory=list)

    def client(self) -> Answers:
        return self

    def join(self, _: str) -> Any:
        return self._answer()

    def pull(self, *_: object) -> Any:
        return self._answer()

    def _answer(self) -> Any:
        if self.is_away:
            raise ControlPlaneUnreachable("away")
        return MemberAnswer()


@dataclass
class MemberAnswer:
    uuid: str = "1"
    name: str = "east"


def test_it_is_noted_once_that_the_control_plane_answers_again() -> None:
    control = Answers()
    remote = RemoteControl(cast(ControlTarget, control), Membership("i"), lambda: control.returns.append("back"))
    remote.pull(Revision(0), 0)
    assert control.returns == [], "it was never away"
    control.is_away = True
    for _ in range(2):
        with pytest.raises(ControlPlaneUnreachable):
            remote.pull(Revision(0), 0)
    control.is_away = False
    remote.pull(Revision(0), 0)
    remote.pull(Revision(0), 0)
    assert control.returns == ["back"]
