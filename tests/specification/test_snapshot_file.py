"""Snapshots in files: everything comes back, the same bytes every time, and no file at all gives a traceback."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from fairpool.cli import plan_json
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.plain import Unreadable
from fairpool.model.problem import Problem
from fairpool.model.workload import Pod, PodGroup, PodSet, PodShape, SubGroup, whole_gpus
from fairpool.replay.example import example_snapshot
from fairpool.replay.planned import Replay, replay
from fairpool.scheduler import snapshot_file
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.row_codec import ColumnTable, from_tables, to_tables
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.snapshot_file import VERSION, Loaded, from_bytes, to_bytes

SAMPLE = Path(__file__).parents[1] / "data" / "version-1.snapshot"
SAMPLE_PLAN = SAMPLE.with_suffix(".plan.json")


def loaded(data: bytes) -> Loaded:
    result = from_bytes(data)
    assert isinstance(result, Loaded), result
    return result


def refused(data: bytes) -> Problem:
    result = from_bytes(data)
    assert isinstance(result, Problem), "it was read"
    assert result.what
    assert result.fix
    return result


# --- everything comes back -----------------------------------------------------------------------------------


def test_a_snapshot_comes_back_as_it_was() -> None:
    snapshot = example_snapshot()
    assert loaded(to_bytes(snapshot)).snapshot == snapshot


def test_an_empty_snapshot_comes_back() -> None:
    assert loaded(to_bytes(Snapshot(now=Instant(0)))).snapshot == Snapshot(now=Instant(0))


@pytest.mark.slow
def test_every_field_of_every_class_comes_back() -> None:
    """Rows made from the type hints, so that a field that is added tomorrow is in this test tomorrow."""
    made = Maker(seed=7)
    for _ in range(20):
        snapshot: Snapshot = made.value(Snapshot)
        assert loaded(to_bytes(snapshot)).snapshot == snapshot


def test_both_policies_come_back() -> None:
    for policy in (Policy.product(), Policy.reference()):
        snapshot = replace(example_snapshot(), policy=policy)
        assert loaded(to_bytes(snapshot)).snapshot.policy == policy


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 1e-300, 5e-324, 1.7976931348623157e308, math.inf, 2**53 + 1.0])
def test_floats_come_back_to_the_bit(weight: float) -> None:
    queue = Queue(id=QueueId("q"), gpu=Entitlement(weight=weight))
    back = loaded(to_bytes(Snapshot(now=Instant(0), queues=(queue,)))).snapshot.queues[0].gpu.weight
    assert (type(back), back.hex()) == (float, weight.hex())


def test_not_a_number_comes_back_too() -> None:
    queue = Queue(id=QueueId("q"), gpu=Entitlement(weight=math.nan))
    assert math.isnan(loaded(to_bytes(Snapshot(now=Instant(0), queues=(queue,)))).snapshot.queues[0].gpu.weight)


@pytest.mark.parametrize("name", ["ümlaut", "日本", 'quote"', "line\nbreak", "\ud800", "\u2028", ""])
def test_any_name_comes_back(name: str) -> None:
    queue = Queue(id=QueueId(name))
    assert loaded(to_bytes(Snapshot(now=Instant(0), queues=(queue,)))).snapshot.queues == (queue,)


def test_duplicate_rows_stay_duplicates() -> None:
    queue = Queue(id=QueueId("q"))
    assert len(loaded(to_bytes(Snapshot(now=Instant(0), queues=(queue, queue)))).snapshot.queues) == 2


def test_trees_of_groups_come_back() -> None:
    tree = SubGroup(
        name="all",
        groups=(
            SubGroup(name="left", pod_sets=(PodSet(name="a"),)),
            SubGroup(name="right", groups=(SubGroup(name="deep", pod_sets=(PodSet(name="b", minimum=3),)),)),
        ),
    )
    group = PodGroup(id=GroupId("g"), queue=QueueId("q"), created_at=Instant(1), tree=tree)
    assert loaded(to_bytes(Snapshot(now=Instant(0), groups=(group,)))).snapshot.groups == (group,)


def test_equal_shapes_are_one_object_after_loading() -> None:
    pods = tuple(
        Pod(id=PodId(f"p{n}"), group=GroupId("g"), shape=PodShape(gpu=whole_gpus(1 + n % 3))) for n in range(30)
    )
    back = loaded(to_bytes(Snapshot(now=Instant(0), pods=pods))).snapshot
    assert back.pods == pods
    assert len({id(pod.shape) for pod in back.pods}) == 3


# --- the same bytes, the same plan -----------------------------------------------------------------------------


def test_the_same_snapshot_gives_the_same_bytes() -> None:
    assert to_bytes(example_snapshot()) == to_bytes(example_snapshot())
    again = loaded(to_bytes(example_snapshot())).snapshot
    assert to_bytes(again) == to_bytes(example_snapshot())


def test_nothing_of_the_machine_is_in_the_bytes() -> None:
    data = to_bytes(example_snapshot())
    assert data[4:8] == b"\0\0\0\0", "a time"
    assert data[9] == 255, "a system"


def test_the_order_of_mappings_does_not_matter() -> None:
    one, other = example_snapshot(), example_snapshot()
    nodes = [replace(node, labels={"a": "1", "b": "2"}) for node in one.nodes]
    turned = [replace(node, labels={"b": "2", "a": "1"}) for node in other.nodes]
    assert to_bytes(replace(one, nodes=tuple(nodes))) == to_bytes(replace(other, nodes=tuple(turned)))


def test_a_plan_survives_the_file() -> None:
    snapshot = example_snapshot()
    assert plan(loaded(to_bytes(snapshot)).snapshot) == plan(snapshot)


def test_ordinary_tools_can_look_into_a_file() -> None:
    header, *tables = gzip.decompress(to_bytes(example_snapshot())).decode().splitlines()
    assert json.loads(header)["format"] == "fairpool-snapshot"
    assert {"nodes", "pods", "PodShape", "Policy"} <= {json.loads(line)["table"] for line in tables}


def test_a_file_of_version_1_still_gives_its_plan() -> None:
    """Kept from the day the format was born. If this fails, old files are misread: add an upgrade step."""
    result = loaded(SAMPLE.read_bytes())
    assert result.version == 1
    assert result.notes == ()
    replayed = replay(result.snapshot)
    assert isinstance(replayed, Replay), replayed
    document = without_sentences(plan_json.plan_document(replayed))
    assert document == json.loads(SAMPLE_PLAN.read_text(encoding="utf-8"))


def without_sentences(document: Any) -> Any:
    """Decisions only: words may get better without an old file being misread."""
    if isinstance(document, dict):
        return {key: without_sentences(each) for key, each in document.items() if key not in ("why", "details")}
    if isinstance(document, list | tuple):
        return [without_sentences(each) for each in document]
    return document


# --- what is wrong with a file ---------------------------------------------------------------------------------

GOOD = to_bytes(example_snapshot())


def rewritten(header: Mapping[str, object] = {}, body: Mapping[str, object] | None = None) -> bytes:
    """The good file with another header, or with other lines and a checksum that fits them."""
    first, _, rest = gzip.decompress(GOOD).partition(b"\n")
    if body is not None:
        lines = [json.loads(line) for line in rest.splitlines()]
        rest = b"".join(json.dumps(body.get(line["table"], line)).encode() + b"\n" for line in lines)
    top = json.loads(first) | {"sha256": hashlib.sha256(rest).hexdigest()} | header
    return gzip.compress(json.dumps(top).encode() + b"\n" + rest)


def table(name: str) -> dict[str, Any]:
    lines = [json.loads(line) for line in gzip.decompress(GOOD).splitlines()[1:]]
    found: dict[str, Any] = next(line for line in lines if line["table"] == name)
    return found


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"", "empty", id="nothing"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "foreign", id="a picture"),
        pytest.param(b'{"format": "fairpool-snapshot"}', "foreign", id="text that was never packed"),
        pytest.param(gzip.compress(b"hello\nworld\n"), "foreign", id="gzip of something else"),
        pytest.param(gzip.compress(b"[" * 100_000), "foreign", id="brackets without end"),
        pytest.param(gzip.compress(b"\xff\xfe\n"), "foreign", id="gzip of bytes that are no text"),
        pytest.param(gzip.compress(b'{"format": "other"}\n'), "foreign", id="another program's header"),
        pytest.param(gzip.compress(b'["fairpool-snapshot"]\n'), "foreign", id="a header that is a list"),
        pytest.param(GOOD[:2], "truncated", id="only the first two bytes"),
        pytest.param(GOOD[:40], "truncated", id="cut in the header"),
        pytest.param(GOOD[: len(GOOD) // 2], "truncated", id="cut in the middle"),
        pytest.param(GOOD[:-1], "truncated", id="cut before the last byte"),
        pytest.param(GOOD + b"x", "damaged", id="something behind the end"),
        pytest.param(rewritten({"sha256": "0" * 64}), "damaged", id="a checksum that does not fit"),
        pytest.param(rewritten({"sha256": None}), "damaged", id="no checksum"),
        pytest.param(rewritten({"version": VERSION + 1}), "newer", id="the next version"),
        pytest.param(rewritten({"version": 0}), "damaged", id="a version before the first"),
        pytest.param(rewritten({"version": True}), "damaged", id="a version that is no number"),
        pytest.param(rewritten({"version": "1"}), "damaged", id="a version in quotes"),
    ],
)
def test_a_bad_file_is_refused(data: bytes, code: str) -> None:
    assert refused(data).code == f"snapshot_file.{code}"


def test_a_newer_file_says_who_wrote_it() -> None:
    problem = refused(rewritten({"version": 9, "written_by": "7.1"}))
    assert "version 9, written by Fairpool 7.1" in problem.what
    assert "upgrade" in problem.fix


def test_a_file_that_unpacks_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_file, "LARGEST_BYTES", 10_000)
    header = json.dumps({"format": "fairpool-snapshot", "version": 1}).encode() + b"\n"
    assert refused(gzip.compress(header + b" " * 10**6)).code == "snapshot_file.too_large"


@pytest.mark.parametrize("seed", range(40))
def test_no_flipped_bit_gives_a_traceback(seed: int) -> None:
    dice = random.Random(seed)
    data = bytearray(GOOD)
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    result = from_bytes(bytes(data))
    assert isinstance(result, Problem) or result.snapshot == example_snapshot()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"id": [3] * 13}, "pods, row 1, id: 3 is not a text", id="a number for a name"),
        pytest.param(
            {"phase": ["waiting"] * 12 + ["runing"]}, "pods, row 13, phase: 'runing' is not one of", id="a word"
        ),
        pytest.param({"devices": [["x"]] * 13}, "pods, row 1, devices: 'x' is not a whole number", id="a device"),
        pytest.param({"devices": [0] * 13}, "is not a list", id="no list"),
        pytest.param({"shape": [99] * 13}, "row of PodShape", id="a shape that is not there"),
        pytest.param({"shape": [-1] * 13}, "row of PodShape", id="a shape from the other end"),
        pytest.param({"id": ["a"]}, "equally long columns", id="a short column"),
        pytest.param({"created_at": [True] * 13}, "True is not a whole number", id="yes for a number"),
        pytest.param({"created_at": [1.5] * 13}, "1.5 is not a whole number", id="a broken number"),
    ],
)
def test_a_value_that_cannot_be_is_named(changes: dict[str, Any], says: str) -> None:
    pods = table("pods")
    same = {name: each for name, each in pods["same"].items() if name not in changes}
    problem = refused(rewritten(body={"pods": pods | {"same": same, "columns": pods["columns"] | changes}}))
    assert problem.code == "snapshot_file.content"
    assert says in problem.what


def test_a_missing_field_takes_its_default() -> None:
    nodes = table("nodes")
    for part in ("same", "columns"):
        nodes[part] = {name: each for name, each in nodes[part].items() if name != "cordoned"}
    assert not any(node.cordoned for node in loaded(rewritten(body={"nodes": nodes})).snapshot.nodes)


def test_a_missing_field_without_default_is_named() -> None:
    nodes = table("nodes")
    nodes["columns"].pop("name")
    assert "nodes has no column name" in refused(rewritten(body={"nodes": nodes})).what


def test_an_unknown_field_is_left_out_and_said() -> None:
    nodes = table("nodes")
    nodes["same"]["colour"] = "green"
    result = loaded(rewritten(body={"nodes": nodes}))
    assert result.snapshot == example_snapshot()
    assert ["nodes.colour" in note.what for note in result.notes] == [True]


# --- upgrades --------------------------------------------------------------------------------------------------


def test_an_older_file_is_upgraded_step_by_step() -> None:
    def rename(tables: dict[str, ColumnTable]) -> dict[str, ColumnTable]:
        tables["nodes"].same["cordoned"] = True
        tables["nodes"].columns.pop("cordoned", None)
        return tables

    def lose_claims(tables: dict[str, ColumnTable]) -> dict[str, ColumnTable]:
        return {name: each for name, each in tables.items() if name != "claims"}

    result = from_bytes(GOOD, {VERSION: rename, VERSION + 1: lose_claims}, version=VERSION + 2)
    assert isinstance(result, Loaded), result
    assert all(node.cordoned for node in result.snapshot.nodes)


def test_there_is_a_step_from_every_version() -> None:
    assert sorted(snapshot_file.UPGRADES) == list(range(1, VERSION))


# --- tables by themselves ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    word: str
    maps: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Root:
    leaf: Leaf
    leaves: tuple[Leaf, ...] = ()


def test_what_holds_a_mapping_is_written_as_often_as_it_is_there() -> None:
    root = Root(Leaf("a", {"x": 1}), (Leaf("b"), Leaf("b")))
    assert from_tables(Root, to_tables(root)) == (root, [])


def test_a_type_without_codec_is_a_bug_and_says_so() -> None:
    @dataclass(frozen=True)
    class Odd:
        value: complex = 0j

    with pytest.raises(TypeError, match="no codec for <class 'complex'>"):
        to_tables(Odd())


def test_tables_that_are_not_there_are_unreadable() -> None:
    with pytest.raises(Unreadable, match="no table Root"):
        from_tables(Root, {})


# --- large -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_nodes_stay_small() -> None:
    example = example_snapshot()
    nodes = tuple(replace(example.nodes[0], name=NodeName(f"node-{n:05}")) for n in range(10_000))
    pods = tuple(
        replace(example.pods[n % 13], id=PodId(f"job-{n:06}-0"), group=GroupId(f"job-{n:06}")) for n in range(80_000)
    )
    groups = tuple(
        replace(example.groups[n % 10], id=GroupId(f"job-{n:06}"), created_at=Instant(n * 7919)) for n in range(80_000)
    )
    snapshot = replace(example, nodes=nodes, groups=groups, pods=pods)
    data = to_bytes(snapshot)
    assert len(data) < 3_000_000
    back = loaded(data).snapshot
    assert (back.nodes[-1], back.pods[-1], back.groups[-1]) == (nodes[-1], pods[-1], groups[-1])
    assert len(back.pods) == 80_000


# --- rows from type hints ------------------------------------------------------------------------------------------


class Maker:
    """Values of any type that a snapshot is made of, few of which mean anything."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def value(self, hint: Any, depth: int = 0) -> Any:
        hint = getattr(hint, "__supertype__", hint)
        origin, parts = get_origin(hint), get_args(hint)
        many = range(self.dice.randrange(0 if depth else 1, 4 if depth < 4 else 1))
        if origin in (Union, UnionType):
            inner = next(part for part in parts if part is not NoneType)
            return self.dice.choice([None, self.value(inner, depth)])
        if origin is tuple and parts[1] is Ellipsis:
            return tuple(self.value(parts[0], depth + 1) for _ in many)
        if origin is tuple:
            return tuple(self.value(part, depth) for part in parts)
        if origin is frozenset:
            return frozenset(self.value(parts[0], depth) for _ in many)
        if origin is not None and issubclass(origin, Mapping):
            return {self.value(parts[0], depth): self.value(parts[1], depth + 1) for _ in many}
        if issubclass(hint, StrEnum):
            return self.dice.choice(list(hint))
        if is_dataclass(hint):
            hints = get_type_hints(hint)
            make: Any = hint
            return make(**{each.name: self.value(hints[each.name], depth + 1) for each in fields(hint)})
        return self.plain(hint)

    def plain(self, hint: Any) -> Any:
        if hint is bool:
            return self.dice.random() < 0.5
        if hint is int:
            return self.dice.choice([0, -1, 1, 7, 2**40, 2**62])
        if hint is float:
            return self.dice.choice([0.0, 1.0, -0.5, self.dice.random()])
        return self.dice.choice(["", "a", "b", "größe", "x\ny"])
