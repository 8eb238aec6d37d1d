"""Takes in the samples of clusters: added up with what is known of the cluster, and handed to the store of samples."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import samples as link
from fairpool.api.problems import problem_item
from fairpool.api.report_reader import read_report
from fairpool.control.cluster_facts import facts_of
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.routes import Routes
from fairpool.control.sample_store import ClusterSample
from fairpool.metrics.resolution import FINE, MINUTES
from fairpool.metrics.totals import ClusterFacts
from fairpool.model.ids import SECOND_MS
from fairpool.model.problem import Problem
from fairpool.model.sample import Sample

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
    body_max_bytes=32 * 1024 * 1024,
)
async def receive(request: Request, plane: Plane, caller: Caller) -> Response:
    report = await asyncio.to_thread(_read_in_slices, await request.body())  # a large cluster's takes a while
    if isinstance(report, list):
        raise Refused(422, [problem_item(each) for each in report])
    answer = await sampled(plane, caller.id, report)
    return Response(answer.to_json(report.version), media_type="application/json")


def _read_in_slices(body: bytes) -> link.SamplesReport | list[Problem]:
    """Samples, or what is wrong with them; other threads go on in between."""
    reading = read_report(link.SamplesReport, body)
    while True:
        try:
            next(reading)
        except StopIteration as done:
            found: link.SamplesReport | list[Problem] = done.value
            return found
        time.sleep(0)


async def sampled(plane: Plane, cluster: str, report: link.SamplesReport) -> link.SamplesAnswer:
    """Take in samples. They are not on the disk when this returns, and may never be."""
    store, now = plane.samples, plane.now()
    now_s, at_s = now // SECOND_MS, report.at // SECOND_MS
    if not now_s - LATE_S < at_s <= now_s + AHEAD_S:
        return link.SamplesAnswer(is_kept=False)
    facts = await plane.read_apart(lambda connection: facts_of(plane, connection, cluster, now))
    sample = await asyncio.to_thread(_of_known, report, facts)
    store.offer(ClusterSample(sample, facts, plane.sample_news.announcer(cluster)))
    plane.activity.note(cluster, sample, facts.holdings)
    return link.SamplesAnswer(is_kept=store.problem is None)


def _of_known(report: link.SamplesReport, facts: ClusterFacts) -> Sample:
    """What was measured of nodes and pods that the cluster has: nothing is kept of others, so they need not wait."""
    nodes, pods = {each.name for each in facts.nodes}, {each.pod for each in facts.holdings}
    known = {
        each.node: each.model_copy(update={"pods": tuple(pod for pod in each.pods if pod.pod in pods)})
        for each in report.nodes
        if each.node in nodes
    }
    return report.model_copy(update={"nodes": tuple(known.values())}).to_sample()
