"""What the agent works out without starting anything: images, devices, portions, logs, names on disk."""

from __future__ import annotations

import json
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from urllib.request import urlopen

import pytest

from fairpool.agent import fractions, log_segments
from fairpool.agent.data_folder import DataFolder
from fairpool.agent.devices import machine_nodes, simulated_pair, with_foreign_work_withheld
from fairpool.agent.images import Image, ImageTable, without_registry, without_tag
from fairpool.agent.life_folder import folder_name, pod_of
from fairpool.agent.log_segments import LogWriter, log_end, offset_since, read_from, segment_starts, tail_offset
from fairpool.agent.nvml import Gpu, NoGpus, NvmlGpus
from fairpool.agent.order_file import KeptOrder, read_order, write_order
from fairpool.agent.pod import notebook, nvidia_smi, reporter, trainer
from fairpool.agent.pod_log import read_log
from fairpool.agent.tombstones import Tombstones
from fairpool.model.ids import PodId
from fairpool.model.problem import Problem
from fairpool.model.spec import Program, Volume
from fairpool.model.workload import LabelOperator, LabelRule, PodShape, Toleration, gpu_memory, gpu_portion, whole_gpus
from tests.contracts.harness import start_order

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


def test_parts_of_an_image_name() -> None:
    assert without_registry("registry.example.org:5000/a/b:1") == "a/b:1"
    assert without_registry("a/b") == "a/b"
    assert without_tag("a/b:1") == "a/b"
    assert without_tag("localhost:5000/a") == "localhost:5000/a"
    assert without_tag("a/b@sha256:00") == "a/b"


# --- devices


class FakeNvml:
    """As much of NVML's face as we use: devices by name and memory, each with the processes on it."""

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self, *devices: tuple[str, int, list[int]]) -> None:
        self.devices = devices

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if self.devices[index][1] == 0:
            raise self.NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return int(uuid.removeprefix("GPU-"))

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return f"GPU-{handle}".encode()

    def nvmlDeviceGetName(self, handle: int) -> str:
        return self.devices[handle][0]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(total=self.devices[handle][1] << 20)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid) for pid in self.devices[handle][2]]


def test_without_gpus_there_is_the_simulated_pair_of_the_documents() -> None:
    nodes = machine_nodes(NoGpus())
    assert nodes == simulated_pair()
    assert [node.node.name for node in nodes] == ["dgx1-1", "dgx1-2"]
    for node in nodes:
        assert (node.node.gpus, node.node.gpu_memory_mib, node.node.cpu_milli) == (8, 32_510, 80_000)
        assert node.node.memory_bytes == 512 * 10**9
        assert node.node.labels["fairpool/simulated"] == "true"


def test_real_gpus_are_found_and_foreign_work_is_withheld() -> None:
    gpus = NvmlGpus(FakeNvml(("NVIDIA A10", 23_028, []), ("NVIDIA A10", 23_028, [77, 78]), ("NVIDIA A10", 23_028, [5])))
    (node,) = machine_nodes(gpus)
    assert (node.node.gpus, node.node.gpu_memory_mib, node.is_simulated) == (3, 23_028, False)
    seen = with_foreign_work_withheld(node, gpus, lambda pid: pid in (5, 77))
    assert seen.node.gpus_withheld == (1,)
    assert with_foreign_work_withheld(node, gpus, lambda pid: True) is node


def test_a_lost_gpu_keeps_its_number_and_is_withheld() -> None:
    gpus = NvmlGpus(FakeNvml(("NVIDIA A10", 23_028, []), ("", 0, []), ("NVIDIA A10", 23_028, [])))
    (node,) = machine_nodes(gpus)
    assert (node.node.gpus, node.node.gpus_withheld) == (3, (1,))
    assert with_foreign_work_withheld(node, gpus, lambda pid: True).node.gpus_withheld == (1,)


def test_unlike_gpus_are_nodes_of_their_own() -> None:
    nodes = machine_nodes(
        NvmlGpus(FakeNvml(("NVIDIA A10", 23_028, []), ("Tesla T4", 15_360, []), ("Tesla T4", 15_360, [])))
    )
    assert [(node.node.gpus, node.node.gpu_memory_mib) for node in nodes] == [(1, 23_028), (2, 15_360)]
    assert [gpu.uuid for gpu in nodes[1].gpus] == ["GPU-1", "GPU-2"]
    assert len({node.node.name for node in nodes}) == 2


A10 = Gpu(index=0, uuid="GPU-0", name="A10", memory_mib=23_028)


def test_a_portion_of_a_device() -> None:
    assert fractions.hold_to_portion(gpu_portion(300), [A10]).memory_mib == (6908,)
    assert fractions.hold_to_portion(gpu_memory(5000, 2), [A10, A10]).memory_mib == (5000, 5000)
    assert fractions.hold_to_portion(whole_gpus(1), [A10]) == fractions.Hold(memory_mib=(23_028,))
    assert "not enforced" in fractions.hold_to_portion(gpu_portion(500), [A10]).words


# --- what is kept on disk


def test_an_order_is_read_back_as_it_was_given(tmp_path: Path) -> None:
    shape = PodShape(
        gpu=gpu_portion(250, 2),
        node_rules=((LabelRule("a", LabelOperator.IN, ("b",)),),),
        tolerations=(Toleration("k", None, None),),
        labels=(("x", "y"),),
    )
    program = Program(image="python", command=("a",), environment=(("A", "b"),), volumes=(Volume(target="/x"),))
    order = start_order(shape=shape)
    order = type(order)(**{**{name: getattr(order, name) for name in order.__dataclass_fields__}, "program": program})
    write_order(str(tmp_path), KeptOrder(order=order, launch={"argv": ["a"]}))
    kept = read_order(str(tmp_path))
    assert kept is not None
    assert (kept.order, kept.launch) == (order, {"argv": ["a"]})


def test_an_order_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_order(str(tmp_path)) is None
    (tmp_path / "order.json").write_text('{"order": ')
    assert read_order(str(tmp_path)) is None


@pytest.mark.parametrize("pod", ["a-0-0", "../../etc", ".", "..", "a/b", "ü %2F", "a b"])
def test_any_pod_id_is_one_folder(pod: str) -> None:
    name = folder_name(PodId(pod))
    assert "/" not in name
    assert name not in (".", "..")
    assert pod_of(name) == pod


def test_tombstones_are_shared_and_last_for_a_boot(tmp_path: Path) -> None:
    first, second = (Tombstones(tmp_path / "ended", "boot-1") for _ in range(2))
    first.add(PodId("a"), "over")
    assert second.words(PodId("a")) == "over"
    (tmp_path / "ended" / "boot-1").open("a").write('["cut of')
    second.add(PodId("b"), "over too")
    assert first.words(PodId("b")) == "over too"
    first.close()
    second.close()
    later = Tombstones(tmp_path / "ended", "boot-2")
    assert later.words(PodId("a")) is None
    later.close()


def test_the_latest_lives_have_tombstones_and_the_rest_of_a_long_boot_does_not(tmp_path: Path) -> None:
    first, second = (Tombstones(tmp_path / "ended", "boot-1", kept=3) for _ in range(2))
    for number in range(8):
        (first, second)[number % 2].add(PodId(f"p{number}"), "over")
        latest = [PodId(f"p{each}") for each in range(max(0, number - 2), number + 1)]
        assert all(each.words(pod) == "over" for pod in latest for each in (first, second))
    third = Tombstones(tmp_path / "ended", "boot-1", kept=3)
    for each in (first, second, third):
        assert each.words(PodId("p0")) is None
        assert each.words(PodId("p7")) == "over"
        each.close()
    assert len(list((tmp_path / "ended").iterdir())) == 2


def test_output_of_those_forgotten_longest_ago_goes_first(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    data.prepare()
    for pod in ("a", "b", "c"):
        data.life(PodId(pod)).mkdir()
        (data.life(PodId(pod)) / "log.0").write_text(pod)
        data.forget(PodId(pod))
    data.prune_logs(kept=2)
    assert sorted(path.name for path in data.logs.iterdir()) == ["b", "c"]


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


def test_the_trainer_learns_the_same_with_and_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, _, _ = trainer._descend([0.1] * trainer.FEATURES, trainer._examples(0))
    monkeypatch.setattr(trainer, "np", None)
    slow, loss, accuracy = trainer._descend([0.1] * trainer.FEATURES, trainer._examples(0))
    assert slow == pytest.approx(fast)
    assert 0 < loss < 1
    assert 0.3 < accuracy <= 1


def test_the_page_in_place_of_a_notebook_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_NAME", "<nb>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), notebook.Page)
    Thread(target=server.handle_request).start()
    with urlopen(f"http://127.0.0.1:{server.server_port}/test-ingress/") as answer:
        text = answer.read().decode()
    server.server_close()
    assert "no Jupyter installed" in text
    assert "/test-ingress/" in text
    assert "&lt;nb&gt;" in text


def test_two_pages_that_want_one_port_get_one_each() -> None:
    with notebook.listening(0) as first, notebook.listening(first.server_port) as second:
        assert second.server_port != first.server_port
