"""Samples on their way to the control plane: none is waited for, the latest are kept, and a reason is said once."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from fairpool.api.clusters import ControlPlaneUnreachable
from fairpool.api.samples import SamplesAnswer, SamplesReport
from fairpool.cluster.sampling import KEPT, Sampling
from fairpool.engines.port import EngineUnreachable
from fairpool.model.ids import Instant, NodeName
from fairpool.model.sample import NodeSample, Sample
from tests.gateway_harness import until

INTERVAL_S = 0.002
AWAY = ControlPlaneUnreachable("no route to host")
REFUSED = ControlPlaneUnreachable("there is no such route", is_refusal=True)


class Measured:
    """An engine whose samples are numbered, and which fails with some of them."""

    def __init__(self) -> None:
        self.taken = 0
        self.fails: set[int] = set()

    def sample(self) -> Sample:
        self.taken += 1
        if self.taken in self.fails:
            raise EngineUnreachable("it restarts") if self.taken % 2 else ValueError("an unforeseen one")
        return Sample(at=Instant(self.taken), nodes=(NodeSample(node=NodeName("n1")),))


class Receiver:
    """A control plane that takes samples, or does not."""

    def __init__(self) -> None:
        self.error: ControlPlaneUnreachable | None = None
        self.is_kept = True
        self.tries = 0
        self.got: list[int] = []

    def samples(self, report: SamplesReport) -> SamplesAnswer:
        self.tries += 1
        if self.error is not None:
            raise self.error
        self.got.append(report.at)
        return SamplesAnswer(is_kept=self.is_kept)

    def close(self) -> None:
        pass


class Setting:
    def __init__(self) -> None:
        self.engine, self.receiver = Measured(), Receiver()
        self.sampling = Sampling(
            self.engine, self.receiver, lambda: Instant(time.time_ns() // 1_000_000), interval_s=INTERVAL_S
        )


@pytest.fixture
def setting() -> Iterator[Setting]:
    made = Setting()
    yield made
    assert made.sampling.close(10)


def test_while_the_control_plane_is_away_the_latest_samples_are_kept(setting: Setting) -> None:
    engine, receiver = setting.engine, setting.receiver
    receiver.error = AWAY
    setting.sampling.start()
    until(lambda: engine.taken >= KEPT + 5, "more samples than are kept")
    receiver.error = None
    until(lambda: len(receiver.got) >= KEPT, "the kept ones have come")
    first = receiver.got[0]
    assert first > 1, "the oldest are gaps"
    assert receiver.got[:KEPT] == list(range(first, first + KEPT)), "in their order, none twice"


def test_a_sample_that_fails_is_a_gap(setting: Setting) -> None:
    setting.engine.fails = {2, 3}
    setting.sampling.start()
    until(lambda: len(setting.receiver.got) >= 3, "samples go on")
    assert setting.receiver.got[:3] == [1, 4, 5]


@pytest.mark.parametrize("is_refused", [True, False], ids=["an older control plane", "its disk is full"])
def test_samples_that_are_not_kept_are_said_once(
    setting: Setting, is_refused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = setting.receiver
    receiver.error, receiver.is_kept = (REFUSED if is_refused else None), False
    with caplog.at_level(logging.WARNING, "fairpool.cluster"):
        setting.sampling.start()
        until(lambda: receiver.tries >= 4, "samples are offered all the same")
    assert [each.message for each in caplog.records] == ["the control plane keeps no samples"]
