"""What the agent works out without starting anything: images, devices, portions, logs, names on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import numpy as np
import pytest

from fairpool.agent import fork_server, garbage_collection, log_segments
from fairpool.agent.devices import machine_nodes, simulated_pair
from fairpool.agent.environment import STANDARD_PATH
from fairpool.agent.garbage_collection import GarbageCollector
from fairpool.agent.images import Image, ImageTable
from fairpool.agent.log_segments import LogWriter, log_end, offset_since, read_from, segment_starts, tail_offset
from fairpool.agent.nvml import Gpu, NoGpus, NvmlGpus
from fairpool.agent.order_file import StoredOrder, read_order, write_order
from fairpool.agent.pod import notebook, nvidia_smi, reporter, trainer
from fairpool.agent.pod_directory import directory_name, pod_of
from fairpool.agent.pod_log import read_log
from fairpool.agent.portion_enforcement import GpuPortion, enforce_portion
from fairpool.agent.state_directory import StateDirectory, UnknownInstallation
from fairpool.agent.tombstones import Tombstones
from fairpool.model.ids import PodId, WorkloadId
from fairpool.model.image_name import without_registry, without_tag
from fairpool.model.problem import Problem
from fairpool.model.spec import Program, Volume
from fairpool.model.workload import (
    NodeSelectorOperator,
    NodeSelectorRequirement,
    PodShape,
    Toleration,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)
from tests.contracts.harness import start_order
from tests.fake_nvml import H200_MIB, Device, FakeNvml

# --- images


@pytest.fixture
def table(tmp_path: Path) -> ImageTable:
    table = ImageTable(tmp_path / "images.toml", tmp_path / "support")
    table.install()
    table.refresh()
    return table


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("python", "python"),
        ("python:3.11-slim", "python"),
        ("docker.example.org/library/python", "python"),
        ("ubuntu:22.04", "ubuntu"),
        ("jupyter/base-notebook", "jupyter/*-notebook"),
        ("jupyter/scipy-notebook:latest", "jupyter/*-notebook"),
        ("gcr.example.org/run-ai-demo/quickstart", "run-ai-demo/quickstart"),
        ("localhost:5000/run-ai-demo/quickstart:v2", "run-ai-demo/quickstart"),
        ("mirror.example.org/a/run-ai-demo/quickstart", "*/run-ai-demo/quickstart"),
        ("netapp/tensorflow-tfl-py3:20.01.0", "netapp/tensorflow-tfl-py3:20.01.0"),
    ],
)
def test_the_documented_images_are_in_the_table(table: ImageTable, name: str, entry: str) -> None:
    found = table.find(name)
    assert isinstance(found, Image), found
    assert found.name == entry


@pytest.mark.parametrize("name", ["", "python2", "netapp/tensorflow-tfl-py3:21.0", "no/such"])
def test_what_is_not_in_the_table_is_a_problem_that_says_where_it_is(table: ImageTable, name: str) -> None:
    found = table.find(name)
    assert isinstance(found, Problem)
    assert str(table.path) in found.fix


def test_an_edited_table_counts_at_once_and_a_broken_one_leaves_the_old(table: ImageTable) -> None:
    table.path.write_text('[[image]]\nname = "mine"\nentrypoint = ["{support}/run"]\n')
    assert table.refresh()
    mine = table.find("mine")
    assert isinstance(mine, Image)
    assert mine.entrypoint == (f"{table.support}/run",)
    table.path.write_text("[[image]")
    assert table.refresh()
    assert table.find("mine") == mine
    assert "cannot be read" in str(table.find("python"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param('[image]\nname = "x"', "[[image]], in double brackets", id="one bracket"),
        pytest.param('image = "x"', "[[image]], in double brackets", id="no table"),
        pytest.param("image = [1]", "[[image]], in double brackets", id="numbers"),
        pytest.param('[[image]]\ncommand = ["x"]', "entry 1 has no name", id="no name"),
        pytest.param('[[image]]\nname = "m"\nenvironment = "A=1"', 'in the entry "m", environment', id="environment"),
        pytest.param(
            '[[image]]\nname = "m"\nenvironment = {"A=B" = "1"}', "'A=B', which is not a valid name", id="variable"
        ),
        pytest.param('[[image]]\nname = "m"\nfiles = ["/x"]', 'in the entry "m", files must be', id="files"),
        pytest.param('[[image]]\nname = "m"\nentrypoint = [1]', "entrypoint must be a list of strings", id="a number"),
        pytest.param('[[image]]\nname = "m"\nentrypoint = "python3 x.py"', "must be a list of strings", id="a text"),
        pytest.param('[[image]]\nname = "m"\nworking_dir = 1', "working_dir must be a string", id="working_dir"),
    ],
)
def test_a_slip_in_the_table_is_said_and_changes_nothing(table: ImageTable, text: str, words: str) -> None:
    table.path.write_text(text)
    assert table.refresh()
    assert isinstance(table.find("python"), Image)
    assert words in str(table.find("m"))


def test_a_table_that_is_no_text_is_said(table: ImageTable) -> None:
    table.path.write_bytes(b"\xff\0" * 100)
    assert table.refresh()
    assert "cannot be read" in str(table.find("m"))


def test_parts_of_an_image_name() -> None:
    assert without_registry("registry.example.org:5000/a/b:1") == "a/b:1"
    assert without_registry("a/b") == "a/b"
    assert without_tag("a/b:1") == "a/b"
    assert without_tag("localhost:5000/a") == "localhost:5000/a"
    assert without_tag("a/b@sha256:00") == "a/b"


# --- devices


def test_without_gpus_there_is_the_simulated_pair_of_the_documents() -> None:
    nodes = machine_nodes(NoGpus())
    assert nodes == simulated_pair()
    assert [node.node.name for node in nodes] == ["dgx1-1", "dgx1-2"]
    for node in nodes:
        assert (node.node.gpus, node.node.gpu_memory_mib, node.node.cpu_milli) == (8, 32_510, 80_000)
        assert node.node.memory_bytes == 512 * 10**9
        assert node.node.labels["fairpool/simulated"] == "true"


def test_real_gpus_are_found() -> None:
    (node,) = machine_nodes(NvmlGpus(FakeNvml(Device(), Device())))
    assert (node.node.gpus, node.node.gpu_memory_mib, node.is_simulated) == (2, H200_MIB, False)
    assert node.node.labels == {"nvidia.com/gpu.product": "H200"}
    assert [gpu.uuid for gpu in node.gpus] == ["GPU-0", "GPU-1"]


def test_unlike_gpus_are_nodes_of_their_own() -> None:
    t4, other = (Device(name="Tesla T4", total=15_360 << 20) for _ in range(2))
    nodes = machine_nodes(NvmlGpus(FakeNvml(Device(), t4, other)))
    assert [(node.node.gpus, node.node.gpu_memory_mib) for node in nodes] == [(1, H200_MIB), (2, 15_360)]
    assert [gpu.uuid for gpu in nodes[1].gpus] == ["GPU-1", "GPU-2"]
    assert len({node.node.name for node in nodes}) == 2


A10 = Gpu(index=0, uuid="GPU-0", name="A10", memory_mib=23_028)


def test_a_portion_of_a_device() -> None:
    assert enforce_portion(gpu_portion(300), [A10]).memory_mib == (6908,)
    assert enforce_portion(gpu_memory(5000, 2), [A10, A10]).memory_mib == (5000, 5000)
    assert enforce_portion(whole_gpus(1), [A10]) == GpuPortion(memory_mib=(23_028,))
    assert "not enforced" in enforce_portion(gpu_portion(500), [A10]).words


# --- what is kept on disk


def test_an_order_is_read_back_as_it_was_given(tmp_path: Path) -> None:
    shape = PodShape(
        gpu=gpu_portion(250, 2),
        node_rules=((NodeSelectorRequirement("a", NodeSelectorOperator.IN, ("b",)),),),
        tolerations=(Toleration("k", None, None),),
        labels=(("x", "y"),),
    )
    program = Program(image="python", command=("a",), environment=(("A", "b"),), volumes=(Volume(target="/x"),))
    order = start_order(shape=shape)
    order = type(order)(**{**{name: getattr(order, name) for name in order.__dataclass_fields__}, "program": program})
    write_order(str(tmp_path), StoredOrder(order=order, launch={"argv": ["a"]}))
    kept = read_order(str(tmp_path))
    assert kept is not None
    assert (kept.order, kept.launch) == (order, {"argv": ["a"]})


def test_an_order_that_an_earlier_version_wrote_is_read(tmp_path: Path) -> None:
    kept = Path(__file__).parents[1] / "data" / "order-with-born-at.json"
    (tmp_path / "order.json").write_bytes(kept.read_bytes())
    failure = "ErrImagePull: no such image"
    assert read_order(str(tmp_path)) == StoredOrder(order=start_order(), launch={"argv": ["a"]}, start_failure=failure)


def test_an_order_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_order(str(tmp_path)) is None
    (tmp_path / "order.json").write_text('{"order": ')
    assert read_order(str(tmp_path)) is None


@pytest.mark.parametrize("pod", ["a-0-0", "../../etc", ".", "..", "a/b", "ü %2F", "a b"])
def test_any_pod_id_is_one_folder(pod: str) -> None:
    name = directory_name(PodId(pod))
    assert "/" not in name
    assert name not in (".", "..")
    assert pod_of(name) == pod


def test_tombstones_are_shared_and_last_for_a_boot(tmp_path: Path) -> None:
    first, second = (Tombstones(tmp_path / "ended", "boot-1") for _ in range(2))
    first.add("over", PodId("a"))
    assert second.words(PodId("a")) == "over"
    (tmp_path / "ended" / "boot-1").open("a").write('["cut of')
    second.add("over too", PodId("b"))
    assert first.words(PodId("b")) == "over too"
    first.close()
    second.close()
    later = Tombstones(tmp_path / "ended", "boot-2")
    assert later.words(PodId("a")) is None
    later.close()


def test_the_latest_pods_have_tombstones_and_the_rest_of_a_long_boot_does_not(tmp_path: Path) -> None:
    first, second = (Tombstones(tmp_path / "ended", "boot-1", kept=3) for _ in range(2))
    for number in range(8):
        (first, second)[number % 2].add("over", PodId(f"p{number}"))
        latest = [PodId(f"p{each}") for each in range(max(0, number - 2), number + 1)]
        assert all(each.words(pod) == "over" for pod in latest for each in (first, second))
    third = Tombstones(tmp_path / "ended", "boot-1", kept=3)
    for each in (first, second, third):
        assert each.words(PodId("p0")) is None
        assert each.words(PodId("p7")) == "over"
        each.close()
    assert len(list((tmp_path / "ended").iterdir())) == 2


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops does not wait long for what is being removed; here the machine may be busy."""
    monkeypatch.setattr(garbage_collection, "CLOSE_TIMEOUT_S", 120.0)


def collected(data: StateDirectory, *pods: str) -> None:
    """Forget these pods, and wait until all that is not kept of them is removed."""
    collector = GarbageCollector(data)
    assert all(collector.forget(PodId(pod)) for pod in pods)
    collector.collect()
    collector.close()


def test_what_is_not_kept_of_a_forgotten_pod_is_removed_after_a_crash(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    data.pod_directory(PodId("a")).mkdir()
    (data.scratch / "a").mkdir()
    for name in ("order.json", "log.0"):
        (data.pod_directory(PodId("a")) / name).write_text(name)
    assert GarbageCollector(data).forget(PodId("a"))
    assert list(data.scratch.iterdir()) == []
    assert list(data.trash.iterdir()) != []
    collected(data)  # by the next server
    assert sorted(path.name for path in (data.logs / "a").iterdir()) == ["log.0", "shim.0"]
    assert list(data.trash.iterdir()) == []


def test_what_is_thrown_away_while_the_trash_is_emptied_is_removed_too(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    collector = GarbageCollector(data)
    for number in range(50):
        (data.trash / f"{number}").mkdir()
        collector.collect()
    collector.close()
    assert list(data.trash.iterdir()) == []


def nested(directory: Path, depth: int) -> None:
    for _ in range(depth):
        directory = directory / "d"
        os.mkdir(directory)


def test_folders_in_a_pods_folder_are_removed_however_deep(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    for pod in ("a", "b"):
        data.pod_directory(PodId(pod)).mkdir()
        (data.pod_directory(PodId(pod)) / "log.0").write_text(pod)
        nested(data.pod_directory(PodId(pod)), 1500)
    collected(data, "a")
    assert sorted(path.name for path in (data.logs / "a").iterdir()) == ["log.0", "shim.0"]
    assert GarbageCollector(data).forget(PodId("b"))
    os.utime(data.logs / "b", (1, 1))
    GarbageCollector(data).prune_logs(kept=1)
    assert [path.name for path in data.logs.iterdir()] == ["a"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_garbage_is_collected_again_after_a_round_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    (data.trash / "a").mkdir()
    collector = GarbageCollector(data)

    def fail() -> None:
        raise RecursionError

    with monkeypatch.context() as broken:
        broken.setattr(collector, "_collect_once", fail)
        collector.collect()
        collector.close()
    assert list(data.trash.iterdir()) != []
    collector.collect()
    collector.close()
    assert list(data.trash.iterdir()) == []


def test_output_of_those_forgotten_longest_ago_goes_first(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    for pod in ("a", "b", "c"):
        data.pod_directory(PodId(pod)).mkdir()
        (data.pod_directory(PodId(pod)) / "log.0").write_text(pod)
        GarbageCollector(data).forget(PodId(pod))
    GarbageCollector(data).prune_logs(kept=2)
    assert sorted(path.name for path in data.logs.iterdir()) == ["b", "c"]


def test_of_a_forgotten_pod_its_output_is_kept(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    folder = data.pod_directory(PodId("a"))
    for name in ("order.json", "exit.json", "log.0", "times.0", "reports.json"):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    (folder / "shim.0").symlink_to("1.2.3")
    (folder / "odd").mkdir()
    (folder / "odd" / "file").touch()
    (data.scratch / "a" / "deep").mkdir(parents=True)
    collected(data, "a")
    assert sorted(path.name for path in (data.logs / "a").iterdir()) == ["log.0", "reports.json", "shim.0", "times.0"]
    assert list(data.pods.iterdir()) == list(data.scratch.iterdir()) == []
    assert GarbageCollector(data).forget(PodId("a")), "and again: nothing is left to do"


def test_a_shim_that_comes_late_finds_the_pod_claimed(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    folder = data.pod_directory(PodId("a"))
    folder.mkdir()
    (folder / "stop.json").write_text("{}")
    inside = os.open(folder, os.O_RDONLY)  # as one that has been forked and has not claimed it yet
    collected(data, "a")
    with pytest.raises(FileExistsError):
        os.symlink("1.2.3", "shim.0", dir_fd=inside)
    os.close(inside)


def test_a_pod_is_not_forgotten_under_a_shim_that_has_just_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    folder = data.pod_directory(PodId("a"))
    folder.mkdir()
    (folder / "stop.json").write_text("{}")

    def too_late(target: str, link: str) -> None:
        raise FileExistsError(link)

    monkeypatch.setattr(os, "symlink", too_late)
    assert not GarbageCollector(data).forget(PodId("a"))
    assert (folder / "stop.json").exists(), "so that it finds its notice"


def test_what_a_pod_hides_in_a_folder_is_not_kept(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    (data.pod_directory(PodId("a")) / "log.d").mkdir(parents=True)
    (data.pod_directory(PodId("a")) / "log.d" / "large").write_bytes(b"x" * 10_000)
    collected(data, "a")
    assert not (data.logs / "a" / "log.d").exists()


def test_forgetting_goes_on_where_a_server_was_killed(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    for folder, name in ((data.logs / "a", "log.0"), (data.pod_directory(PodId("a")), "log.1")):
        folder.mkdir()
        (folder / name).write_text(name)
    GarbageCollector(data).forget(PodId("a"))
    assert sorted(path.name for path in (data.logs / "a").iterdir()) == ["log.0", "log.1", "shim.0"]
    assert list(data.pods.iterdir()) == []


def test_old_output_takes_up_no_more_than_it_may(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    for number, pod in enumerate(("a", "b", "c")):
        data.pod_directory(PodId(pod)).mkdir()
        (data.pod_directory(PodId(pod)) / "log.0").write_bytes(b"x" * 100_000)
        GarbageCollector(data).forget(PodId(pod))
        os.utime(data.logs / pod, (number, number))
    GarbageCollector(data).prune_logs(kept_bytes=250_000)
    assert sorted(path.name for path in data.logs.iterdir()) == ["b", "c"]


def test_checkpoints_go_when_they_are_old_and_too_many_and_have_no_pod(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    saved = tmp_path / "checkpoints"
    ages_s = {"ancient": 400, "old": 300, "alive": 500, "busy": 500, "young": 10}
    for name, age_s in ages_s.items():
        (saved / name / "0").mkdir(parents=True)
        (saved / name / "0" / "checkpoint.json").write_bytes(b"x" * 100_000)
        moment = time.time() - age_s
        for path in (saved / name / "0" / "checkpoint.json", saved / name / "0", saved / name):
            os.utime(path, (moment, moment))
    os.utime(saved / "busy" / "0" / "checkpoint.json")  # only a file deep in it says that it still saves
    data.pod_directory(PodId("alive-0-3")).mkdir()
    GarbageCollector(data).prune_checkpoints(kept_s=200, kept_bytes=150_000)
    assert sorted(path.name for path in saved.iterdir()) == ["alive", "busy", "old", "young"]
    GarbageCollector(data).prune_checkpoints(kept_s=200, kept_bytes=0)
    assert sorted(path.name for path in saved.iterdir()) == ["alive", "busy", "young"]


def test_output_that_is_not_kept_is_moved_to_the_trash_and_removed_from_there(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    order = replace(start_order(), pod=PodId("w-0-1"), workload=WorkloadId("w"))
    data.pod_directory(order.pod).mkdir()
    for name in ("log.0", "order.json"):
        (data.pod_directory(order.pod) / name).write_text(name)
    for name in ("w-0-0", "w-1-0", "w-1-0-0", "other-0-0"):
        (data.logs / name).mkdir()
        (data.logs / name / "log.0").write_text(name)
    collector = GarbageCollector(data)
    collector.discard_output([order, order])
    assert sorted(path.name for path in data.logs.iterdir()) == ["other-0-0", "w-1-0-0"]
    assert [path.name for path in data.pod_directory(order.pod).iterdir()] == ["order.json"]
    assert len(list(data.trash.iterdir())) == 3
    collector.collect()
    collector.close()
    assert list(data.trash.iterdir()) == []


def test_rendezvous_files_do_not_pile_up(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    meeting = tmp_path / "rendezvous"
    for name in ("a.0", "a.1", "a.b.0", "a", "gone.0", "here.0", "new.0"):
        (meeting / name).write_text("1")
    order = start_order()
    GarbageCollector(data).remove_shared(replace(order, workload=WorkloadId("a"), together=True))
    assert sorted(path.name for path in meeting.iterdir()) == ["a", "a.b.0", "gone.0", "here.0", "new.0"]
    for name in ("gone.0", "here.0"):
        os.utime(meeting / name, (0, 0))
    data.pod_directory(PodId("here-0-0")).mkdir()
    GarbageCollector(data).prune_checkpoints_if_due()
    assert sorted(path.name for path in meeting.iterdir()) == ["a", "a.b.0", "here.0", "new.0"]


# --- files that were damaged


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\0\0", b"no uuid", b"\xff\xfe"], ids=["empty", "nulls", "text", "bytes"]
)
def test_an_identity_that_cannot_be_read_is_not_replaced_while_there_are_pods(tmp_path: Path, content: bytes) -> None:
    data = StateDirectory(tmp_path)
    first = data.prepare()
    assert data.prepare() == first
    (tmp_path / "installation").write_bytes(content)
    data.pod_directory(PodId("a")).mkdir()
    with pytest.raises(UnknownInstallation) as refusal:
        data.prepare()
    assert str(tmp_path / "installation") in refusal.value.problem.what
    assert refusal.value.problem.fix
    assert (tmp_path / "installation").read_bytes() == content
    (tmp_path / "installation").unlink()
    with pytest.raises(UnknownInstallation):
        data.prepare()
    data.pod_directory(PodId("a")).rmdir()
    assert data.prepare() == data.prepare() != first


def test_a_meeting_place_that_was_damaged_is_chosen_anew(tmp_path: Path) -> None:
    data = StateDirectory(tmp_path)
    data.prepare()
    order = replace(start_order(), together=True, pods=2)
    place = data.rendezvous(order)
    assert data.rendezvous(order) == place
    (file,) = (tmp_path / "rendezvous").iterdir()
    file.write_bytes(b"\0\0")
    again = data.rendezvous(order)
    assert again is not None
    assert all(0 < port < 65536 for port in again.ports)
    assert data.rendezvous(order) == again


# --- logs


def written(folder: Path, *lines: str, segment_bytes: int = 10, segments: int = 3) -> str:
    writer = LogWriter(str(folder), segment_bytes, segments)
    for number, line in enumerate(lines):
        writer.write(f"{line}\n".encode(), 1000 * (number + 1))
    writer.close()
    return str(folder)


def test_segments_are_full_and_the_oldest_goes(tmp_path: Path) -> None:
    folder = written(tmp_path, *("abcd",) * 9)
    assert segment_starts(folder) == [20, 30, 40]
    assert log_end(folder) == 45
    assert read_from(folder, 0, 1000) == (20, b"abcd\n" * 5)
    assert read_from(folder, 28, 4) == (28, b"d\nab")
    assert read_from(folder, 45, 10) == (45, b"")


@pytest.mark.parametrize(("lines", "expected"), [(0, b""), (1, b"c\n"), (2, b"bb\nc\n"), (9, b"a\nbb\nc\n")])
def test_the_last_lines(tmp_path: Path, lines: int, expected: bytes) -> None:
    folder = written(tmp_path, "a", "bb", "c", segment_bytes=4)
    assert read_from(folder, tail_offset(folder, lines), 100)[1] == expected


def test_what_came_since(tmp_path: Path) -> None:
    folder = written(tmp_path, "a", "b", "c", segment_bytes=100)
    assert read_from(folder, offset_since(folder, 2000), 100)[1] == b"b\nc\n"
    assert offset_since(folder, 9000) == log_end(folder)


def test_a_successor_appends(tmp_path: Path) -> None:
    written(tmp_path, "a", segment_bytes=100)
    assert read_from(written(tmp_path, "b", segment_bytes=100), 0, 100) == (0, b"a\nb\n")
    assert log_segments.times(str(tmp_path)) == [(0, 1000), (2, 1000)]


@pytest.mark.parametrize("is_over", [True, False])
def test_a_moment_stands_before_each_line_and_nowhere_else(tmp_path: Path, is_over: bool) -> None:
    writer = LogWriter(str(tmp_path), 1 << 20, 2)
    writer.write(b"one\ntwo\nlonger than a piece\nlast\n", 1000)
    writer.close()
    pieces, offset = [], 0
    while True:
        chunk = read_log(tmp_path, is_over=is_over, offset=offset, limit_bytes=10, timestamps=True)
        if not chunk.data:
            break
        pieces.append(chunk.data)
        offset = chunk.next_offset
    lines = b"".join(pieces).splitlines()
    assert [line.count(b"Z ") for line in lines] == [1, 1, 2, 1]  # a line over a piece is stamped with each
    assert lines[0] == b"1970-01-01T00:00:01.000Z one"
    assert offset == log_end(str(tmp_path))


# --- what is put into pods


def test_nvidia_smi_answers_scripts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = {"index": 1, "uuid": "SIM-1", "name": "Tesla V100-SXM2-32GB", "memory_mib": 16_255}
    monkeypatch.setenv(nvidia_smi.VARIABLE, json.dumps([gpu]))
    assert nvidia_smi.main(["--query-gpu=index,memory.total,memory.used", "--format=csv"]) == 0
    assert capsys.readouterr().out == "index, memory.total [MiB], memory.used [MiB]\n1, 16255 MiB, 0 MiB\n"
    assert nvidia_smi.main(["--query-gpu=name", "--format=csv,noheader,nounits"]) == 0
    assert capsys.readouterr().out == "Tesla V100-SXM2-32GB\n"
    assert nvidia_smi.main(["-L"]) == 0
    assert capsys.readouterr().out == "GPU 1: Tesla V100-SXM2-32GB (UUID: SIM-1)\n"
    assert nvidia_smi.main(["--query-gpu=nonsense"]) == 2
    monkeypatch.delenv(nvidia_smi.VARIABLE)
    assert nvidia_smi.main([]) == 6


def test_reports_add_up_and_never_disturb(tmp_path: Path) -> None:
    path = tmp_path / "reports.json"
    first, second = reporter.Reporter(f"file:{path}"), reporter.Reporter(f"file:{path}")
    first.reportMetric("loss", 0.5)
    second.progress(1, 4)
    first.reportMetric("loss", float("nan"))
    found = json.loads(path.read_text())
    assert found["metrics"] == {"loss": 0.5, "overall_epochs": 4, "epoch": 1}
    for address in ("", "file:/no/such/folder/x", "http://127.0.0.1:9/"):
        reporter.Reporter(address).reportMetric("loss", 1)


class Strange:
    """A number of another library: NumPy's, or a tensor of one."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __float__(self) -> float:
        if isinstance(self.value, Exception):
            raise self.value
        return float(str(self.value))

    def __str__(self) -> str:
        raise RuntimeError("I have no words")


def test_whatever_a_job_reports_it_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "reports.json"
    reported = reporter.Reporter(f"file:{path}")
    for odd in (Strange(RuntimeError("a graph")), None, "words", [1], 10**400, float("inf"), True):
        reported.reportMetric("odd", odd)  # type: ignore[arg-type]
        reported.progress(odd, odd)  # type: ignore[arg-type]
    reported.reportParameter("odd", Strange(1))
    reported.reportMetric("loss", Strange("0.25"))  # type: ignore[arg-type]
    reported.progress(np.float32(1), np.int64(4))  # type: ignore[arg-type]
    found = json.loads(path.read_text())
    assert (found["metrics"], found["parameters"]) == ({"loss": 0.25, "epoch": 1, "overall_epochs": 4}, {})
    for damaged in ("[]", '{"metrics": 3}', ""):
        path.write_text(damaged)
        reported.reportMetric("loss", 0.5)
        assert json.loads(path.read_text())["metrics"]["loss"] == 0.5


def training(folder: Path) -> trainer.Training:
    return trainer.Training(trainer._parser().parse_args([]), str(folder))


def test_of_the_pods_that_share_a_folder_one_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert not training(tmp_path).save()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("RANK", "0")
    first, plain = training(tmp_path), os.replace
    first.epoch = 3

    def while_another_saves(source: str, target: str) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(os, "getpid", lambda: 1)  # its earlier incarnation, which has not ended yet
        assert training(tmp_path).save()
        plain(source, target)

    monkeypatch.setattr(os, "replace", while_another_saves)
    assert first.save()
    again = training(tmp_path)
    again.resume()
    assert again.epoch == 3
    assert [path.name for path in tmp_path.iterdir()] == [trainer.CHECKPOINT]
    assert "resuming from the checkpoint after epoch 3" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"epoch": 1, "step": 0, "weights": 7, "loss": 1, "accuracy": 1}'])
def test_a_training_begins_anew_where_its_checkpoint_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / trainer.CHECKPOINT).write_text(content)
    begun = training(tmp_path)
    begun.resume()
    assert (begun.epoch, begun.step, len(begun.weights)) == (0, 0, trainer.FEATURES)
    assert "starting from the beginning" in capsys.readouterr().out


def test_a_training_goes_on_where_nothing_can_be_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert not training(tmp_path / "file").save()
    assert "could not save a checkpoint" in capsys.readouterr().out


def test_the_trainer_learns_the_same_with_and_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, _, _ = trainer._descend([0.1] * trainer.FEATURES, trainer._examples(0))
    monkeypatch.setattr(trainer, "np", None)
    slow, loss, accuracy = trainer._descend([0.1] * trainer.FEATURES, trainer._examples(0))
    assert slow == pytest.approx(fast)
    assert 0 < loss < 1
    assert 0.3 < accuracy <= 1


def test_the_page_in_place_of_a_notebook_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_NAME", "<nb>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), notebook.NotebookPage)
    Thread(target=server.handle_request).start()
    with urlopen(f"http://127.0.0.1:{server.server_port}/test-ingress/") as answer:
        text = answer.read().decode()
    server.server_close()
    assert "not installed on this machine" in text
    assert "/test-ingress/" in text
    assert "&lt;nb&gt;" in text
    assert "<nb>" not in text


def test_the_page_in_place_of_a_notebook_names_the_way_to_a_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_NAME", "desk")
    monkeypatch.setenv("RUNAI_PROJECT", "team-a")
    text = notebook.page("/")
    assert f"sudo {sys.executable} -m venv /opt/jupyter" in text
    assert "/usr/local/bin" in STANDARD_PATH, "where the page says to put the program is where pods look for it"
    assert "ln -s /opt/jupyter/bin/jupyter /usr/local/bin/jupyter" in text
    assert "runai suspend desk -p team-a\nrunai resume desk -p team-a" in text
    assert "prefers-color-scheme: dark" in text
    assert "<script" not in text


def test_two_pages_that_want_one_port_get_one_each() -> None:
    with notebook.listening(0) as first, notebook.listening(first.server_port) as second:
        assert second.server_port != first.server_port


def test_shims_carry_nothing_that_each_of_them_would_pay_for() -> None:
    """`threading` has work done after every fork, a quarter of what a shim does; others are a sixth of its memory."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import fairpool.agent.fork_server; print(*sorted(sys.modules))"
    )
    source = Path(fork_server.__file__).parents[2]
    command = [sys.executable, "-I", "-S", "-c", program, str(source)]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "fairpool.agent.shim" in loaded
    assert not {"threading", "typing", "traceback", "subprocess", "dataclasses", "pathlib", "logging"} & set(loaded)
    of_model = {name for name in loaded if name.startswith("fairpool.model")}
    assert of_model == {"fairpool.model", "fairpool.model.relay_port"}, "a number, without imports"
