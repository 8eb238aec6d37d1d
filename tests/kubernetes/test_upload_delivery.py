"""An uploaded folder is sent for as long as its pod waits for it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairpool.engines.kubernetes import upload_delivery
from fairpool.engines.kubernetes.failures import ApiUnreachable
from fairpool.engines.kubernetes.upload_delivery import UploadDelivery
from fairpool.model.observation import StartOrder
from tests.kubernetes.event_loop import within
from tests.kubernetes.test_cluster_cache import order


class LateCluster(UploadDelivery):
    """Its API server is away for the first attempts."""

    attempts = 0

    async def _send(self, order: StartOrder, namespace: str, name: str) -> None:
        self.attempts += 1
        if self.attempts < 30:
            raise ApiUnreachable("exec", "connection refused", was_sent=False)


def test_a_folder_arrives_after_an_api_server_that_was_away_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETRY_S", "LONGEST_RETRY_S"):
        monkeypatch.setattr(upload_delivery, name, 0.0)

    @within(10)
    async def delivered() -> None:
        delivery = LateCluster(cast(Any, None), cast(Any, None), cast(Any, None))
        await delivery._deliver(order(), "runai-a", "pod")
        assert delivery.attempts == 30

    delivered()
