"""What is known of a cluster from its watches, without an API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from fairpool.engines.kubernetes.cluster_cache import FORBIDDEN_MAX, KEPT_MAX, ClusterCache
from fairpool.engines.kubernetes.node_reading import NodeObject
from fairpool.engines.kubernetes.objects import FINALIZER, KEPT, pod_manifest
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.pod_signature import PodSigner
from fairpool.model.ids import PodId, Token
from fairpool.model.observation import ObservedPod, PodState, StartOrder
from tests.contracts.harness import NODE, start_order
from tests.kubernetes.fake_nodes import node as fake_node

SETTINGS = PodSettings()
SIGNER = PodSigner(b"k" * 32)
RUNNING = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}


def ended(finished_at: str = "2026-01-01T00:00:00Z", code: int = 0) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "startedAt": finished_at, "finishedAt": finished_at}}
    return {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": state}]}


def cache(*nodes: NodeObject, token: int = 1) -> ClusterCache:
    made = ClusterCache(SETTINGS, SIGNER)
    made.take_over(Token(token))
    made.take_nodes(nodes or [node()], (), is_complete=True)
    made.take_pods([], complete_at="1")
    made.refresh()
    return made


def node(name: str = NODE, boot_id: str = "b1", **status: Any) -> NodeObject:
    content = fake_node(name, boot_id=boot_id)
    content["status"] |= status
    return msgspec.convert(content, NodeObject)


def order(workload: str = "a", device: int = 0) -> StartOrder:
    return start_order(workload, boot_id="b1", devices=(device,))


def pod(of: StartOrder, version: int = 10, token: int = 1, uid: str = "", **fields: Any) -> PodObject:
    made = pod_manifest(of, Token(token), "runai-vision", SETTINGS)
    assert isinstance(made, dict)
    made = SIGNER.signed(made)
    metadata = {"uid": uid or f"uid-{of.pod}", "resourceVersion": str(version), **fields.pop("metadata", {})}
    labels = {**made["metadata"]["labels"], **metadata.pop("labels", {})}
    made["metadata"] |= {**metadata, "labels": labels}
    return msgspec.convert({**made, "status": fields.pop("status", RUNNING)}, PodObject)


def seen(known: ClusterCache, of: StartOrder) -> ObservedPod | None:
    return known.refresh()[1].get(of.pod)


def test_what_does_not_matter_changes_nothing() -> None:
    known = cache()
    assert known.take_pod(pod(order()))
    first = known.refresh()
    assert not known.take_pod(pod(order(), version=11))
    again = node()
    again.metadata.resource_version = "99"
    assert not known.take_nodes([again], (), is_complete=False)
    nodes, pods, changed = known.refresh()
    assert (nodes is first[0], pods is first[1], changed) == (True, True, frozenset())


def test_an_older_version_is_dropped_and_so_is_a_pod_that_was_deleted() -> None:
    known, a = cache(), order()
    known.take_pod(pod(a, version=20, status=ended()))
    assert not known.take_pod(pod(a, version=15))
    found = seen(known, a)
    assert found is not None
    assert found.state is PodState.EXITED
    found_pod = known.find(a.pod)
    assert found_pod is not None
    assert known.remove(found_pod.namespace, found_pod.name, found_pod.uid)
    assert not known.take_pod(pod(a, version=15))
    assert seen(known, a) is None


def test_a_list_removes_what_it_does_not_contain_unless_it_is_newer_than_the_list() -> None:
    known, old, new = cache(), order("old"), order("new", 1)
    known.take_pod(pod(old, version=10))
    known.take_pod(pod(new, version=30))
    known.take_pods([], complete_at="20")
    assert set(known.refresh()[1]) == {new.pod}


def test_after_a_restored_backup_older_versions_count_and_later_pods_are_gone() -> None:
    known, old, late, deleted = cache(), order("old"), order("late", 1), order("deleted", 2)
    known.take_pod(pod(old, version=90, status=ended()))
    known.take_pod(pod(late, version=95))
    gone = pod(deleted, version=30)
    known.take_pod(gone)
    known.remove(gone.metadata.namespace, gone.metadata.name, gone.metadata.uid)
    assert known.take_pods([pod(old, version=40), pod(deleted, version=30)], complete_at="50", is_restored=True)
    pods = known.refresh()[1]
    assert set(pods) == {old.pod, deleted.pod}
    assert pods[old.pod].state is PodState.RUNNING


def test_what_was_seen_counts_more_than_the_clock_of_a_node() -> None:
    """The clock of the node is an hour behind: by the times, the pod would have ended before it was asked to."""
    known, a = cache(), order()
    known.take_pod(pod(a))
    asked = {"deletionTimestamp": "2026-01-01T01:00:30Z", "deletionGracePeriodSeconds": 30}
    known.take_pod(pod(a, version=11, metadata=asked))
    known.take_pod(pod(a, version=12, metadata=asked, status=ended()))
    found = seen(known, a)
    assert found is not None
    assert (found.state, found.after_notice) == (PodState.EXITED, True)
    # And the other way round: it had ended, and was deleted afterwards.
    b = order("b", 1)
    known.take_pod(pod(b, status=ended("2026-01-01T02:00:00Z")))
    known.take_pod(pod(b, version=11, metadata=asked, status=ended("2026-01-01T02:00:00Z")))
    found = seen(known, b)
    assert found is not None
    assert not found.after_notice


def test_pods_of_a_silent_node_are_not_seen_and_are_back_with_it() -> None:
    known, a = cache(), order()
    known.take_pod(pod(a))
    before = seen(known, a)
    silent = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    known.take_nodes([node(conditions=silent)], (), is_complete=False)
    assert seen(known, a) is None
    assert known.leftovers() == []
    known.take_nodes([node()], (), is_complete=False)
    assert seen(known, a) is before


def test_pods_of_a_node_that_rebooted_or_was_deleted_are_left_over() -> None:
    known, a = cache(), order()
    known.take_pod(pod(a))
    known.refresh()
    known.take_nodes([node(boot_id="b2")], (), is_complete=False)
    assert seen(known, a) is None
    assert [(each.pod.order, each.is_dead) for each in known.leftovers()] == [(a, True)]
    known.take_nodes([], [NODE], is_complete=False)
    nodes, _, _ = known.refresh()
    assert nodes[NODE].gone
    found = known.find(a.pod)
    assert found is not None
    known.remove(found.namespace, found.name, found.uid)
    assert NODE not in known.refresh()[0]
    assert known.leftovers() == []


def test_a_pod_of_an_older_loop_is_ours_if_it_existed_when_we_took_over() -> None:
    known, before, after = ClusterCache(SETTINGS, SIGNER), order("before"), order("after", 1)
    known.take_over(Token(5))
    known.take_nodes([node()], (), is_complete=True)
    known.take_pods([pod(before, token=4)], complete_at="20")
    known.take_pod(pod(after, version=30, token=4))
    nodes, pods, _ = known.refresh()
    assert set(pods) == {before.pod}
    assert [each.pod.order for each in known.leftovers()] == [after]
    assert len(nodes[NODE].node.gpus_withheld) == 1  # until it is gone
    found = known.find(after.pod)
    assert found is not None
    known.adopt(found)
    nodes, pods, _ = known.refresh()
    assert set(pods) == {before.pod, after.pod}
    assert (known.leftovers(), nodes[NODE].node.gpus_withheld) == ([], ())


def test_a_pod_that_was_stopped_before_it_appeared_is_left_over() -> None:
    known, a = cache(), order()
    known.forbid([a.pod], "stopped")
    known.take_pod(pod(a))
    assert seen(known, a) is None
    assert [each.why for each in known.leftovers()] == ["stopped"]


def test_what_is_remembered_is_bounded() -> None:
    known = cache()
    known.forbid([PodId(f"p-{number}-0") for number in range(FORBIDDEN_MAX + 10)], "stopped")
    assert len(known._forbidden) == FORBIDDEN_MAX
    for number in range(KEPT_MAX + 5):
        each = replace(order(f"w{number}"), devices=())
        kept = pod(each, metadata={"labels": {KEPT: "true"}, "finalizers": []}, status=ended())
        known.take_pod(kept)
    assert [each.label for each in known.superfluous()] == [f"w{number}-0-0" for number in range(5)]
    assert not known.refresh()[1]


def test_a_finalizer_that_is_still_there_means_that_the_end_was_not_recorded() -> None:
    known, a = cache(), order()
    known.take_pod(pod(a, metadata={"labels": {KEPT: "true"}, "finalizers": [FINALIZER]}, status=ended()))
    assert seen(known, a) is not None


def test_a_pod_that_runs_is_observed_whatever_labels_it_was_given() -> None:
    known, a = cache(), order()
    known.take_pod(pod(a, metadata={"labels": {KEPT: "true"}, "finalizers": []}))
    assert seen(known, a) is not None


def test_output_is_kept_as_long_as_its_workload_is_known() -> None:
    known, a, b = cache(), order("a"), order("b", 1)
    kept = {"labels": {KEPT: "true"}, "finalizers": []}
    for each in (a, b):
        known.take_pod(pod(each, metadata=kept, status=ended()))
    known.take_pod(pod(order("c", 2)))
    assert known.kept_in_vain(lambda workload: True) == []
    assert [found.order for found in known.kept_in_vain(lambda workload: workload == a.workload)] == [b]
