"""Takes in the samples of clusters: added up with what is known of the cluster, and handed to the store of samples."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import samples as link
from fairpool.api.message import read_message
from fairpool.api.problems import problem_item
from fairpool.control.cluster_facts import facts_of
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.routes import Routes
from fairpool.control.sample_store import ClusterSample
from fairpool.metrics.resolution import FINE, MINUTES
from fairpool.model.ids import SECOND_MS

routes = Routes("clusters")

AHEAD_S: Final = 60
"""How far the clock of a cluster may be ahead of ours."""
LATE_S: Final = FINE.kept_s - MINUTES.block_s
"""How late samples may come: what blocks of minutes are made from must be there still, to make them again."""


@routes.post(
    "/api/v1/cluster/samples",
    action=Action.LINK,
    summary="Report what was measured on the nodes of a cluster (called by clusters)",
    request_body=link.SamplesReport,
    answer=link.SamplesAnswer,
    body_max_bytes=64 * 1024 * 1024,
)
async def receive(request: Request, plane: Plane, caller: Caller) -> Response:
    body = await request.body()
    report = await asyncio.to_thread(read_message, link.SamplesReport, body)  # a large cluster's takes a while
    if isinstance(report, list):
        raise Refused(422, [problem_item(each) for each in report])
    answer = await sampled(plane, caller.id, report)
    return Response(answer.to_json(report.version), media_type="application/json")


async def sampled(plane: Plane, cluster: str, report: link.SamplesReport) -> link.SamplesAnswer:
    """Take in samples. They are not on the disk when this returns, and may never be."""
    store, now = plane.samples, plane.now()
    now_s, at_s = now // SECOND_MS, report.at // SECOND_MS
    if not now_s - LATE_S < at_s <= now_s + AHEAD_S:
        return link.SamplesAnswer(is_kept=False)
    facts = await plane.read_apart(lambda connection: facts_of(plane, connection, cluster, now))
    sample = report.to_sample()
    store.offer(ClusterSample(sample, facts))
    plane.activity.note(cluster, sample, facts.holdings)
    return link.SamplesAnswer(is_kept=store.problem is None)
