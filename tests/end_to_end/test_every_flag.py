"""The flags of `runai submit` on a real platform: what each of them does to the job, not only what is sent for it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.shared_platform import SharedPlatform
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.typist import Typist
from tests.running_platform import Running

pytestmark = pytest.mark.slow

PROJECT = "flags"


@dataclass
class Flags:
    """A platform, and a user of the project `flags`."""

    shared: SharedPlatform
    folder: Path

    def typed(self, line: str) -> str:
        return self.shared.typed(line.format(folder=self.folder))

    def refused(self, line: str) -> str:
        return self.shared.typist.refused(line.format(folder=self.folder))

    def jobs(self) -> dict[str, dict[str, Any]]:
        return self.shared.jobs(PROJECT)

    def detail(self, name: str) -> Any:
        return self.shared.platform.client.workload(self.jobs()[name]["id"])

    def becomes(self, name: str, *statuses: str) -> None:
        self.shared.becomes(PROJECT, name, *statuses)

    def pods(self, name: str, phase: str = "running") -> list[Any]:
        return [each for each in self.shared.platform.client.pods(self.jobs()[name]["id"]) if each.phase == phase]

    def log(self, name: str) -> str:
        return self.typed(f"runai logs {name}")

    def until(self, holds: Any, what: str) -> None:
        self.shared.until(holds, what)


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flags]:
    """A platform with every job of `OUTPUT` submitted."""
    folder = tmp_path_factory.mktemp("flags")
    own = folder / "own"
    (own / "sub").mkdir(parents=True)
    (own / "greeting.txt").write_text("from the folder\n")
    (own / "sub" / "left.out").write_text("no\n")
    (own / "words.txt").write_text("red 1\nblue 2\n")
    platform = Running(folder / "data")
    try:
        platform.up("--nodes", "simulated")
        platform.sign_in(folder / "admin" / "config")
        shared = SharedPlatform(platform, Typist(str(platform.status["address"]), folder))
        found = Flags(shared, own)
        found.typed(f"runai-adm project create {PROJECT} -g 8")
        found.typed(f"runai config project {PROJECT}")
        for name, (_, line, _) in OUTPUT.items():
            found.typed(f"runai submit {name} {line}")
        yield found
    finally:
        platform.clean_up()


SH = "-i ubuntu -- sh -c"
OUTPUT: dict[str, tuple[tuple[str, ...], str, str]] = {
    "image": (("--image",), "-i python -- python -c 'print(6 * 7)'", r"^42$"),
    "older-form": (("--command", "--args"), "-i ubuntu --command echo --args one --args two", r"^one two$"),
    "newer-form": (("--command",), "-i run-ai-demo/quickstart --command -- echo other", r"^other$"),
    "variable": (("--environment",), f"-e COLOUR=deep-blue {SH} 'echo $COLOUR'", r"^deep-blue$"),
    "place": (("--working-dir",), "-i ubuntu --working-dir /usr/bin -- pwd", r"^/usr/bin$"),
    "local": (("--local-image", "--image-pull-policy"), "-i ubuntu --local-image -- echo here", r"^here$"),
    "half": (("--gpu",), "-i ubuntu -g 0.5 -- nvidia-smi", r"/ 16255MiB"),
    "two": (("--gpu",), f"-g 2 {SH} 'nvidia-smi -L | wc -l'", r"^2$"),
    "memory-of-gpu": (("--gpu-memory",), "-i ubuntu --gpu-memory 4G -- nvidia-smi", r"/ 3815MiB"),
    "shm": (("--large-shm",), f"--large-shm {SH} 'df -m /dev/shm | tail -1'", r"^\S+ +[0-9]{4,}"),
    "shdm": (("--large-shdm",), f"--large-shdm {SH} 'df -m /dev/shm | tail -1'", r"^\S+ +[0-9]{4,}"),
    "mount": (("--volume",), "-i ubuntu -v {folder}:/seen:ro -- cat /seen/greeting.txt", r"^from the folder$"),
    "upload": (
        ("--workdir", "--exclude"),
        f"--workdir {{folder}} --exclude '*.out' {SH} 'cat greeting.txt; ls sub | wc -l'",
        r"^from the folder\n0$",
    ),
    "array": (("--array",), f"--array 3-4 {SH} 'echo number {{{{index}}}}'", r"^number [34]$"),
    "values": (("--for",), f"--for LR=0.1,0.2 {SH} 'echo rate {{{{LR}}}}'", r"^rate 0\.[12]$"),
    "lines": (("--array-args",), "-i ubuntu --array-args {folder}/words.txt -- echo", r"^(red 1|blue 2)$"),
    "kept-input": (("--stdin", "--tty"), "-i ubuntu --stdin --tty -- tty", r"^/dev/pts/"),
    "older-job": (("--old-job",), "-i ubuntu --old-job -- echo ran", r"^ran$"),
}
"""Jobs that end by themselves: the flags that they show, the line after the name, and what they write."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.flag(*shown)) for name, (shown, _, _) in OUTPUT.items()]
)
def test_what_the_program_finds(flags: Flags, name: str) -> None:
    flags.becomes(name, "Succeeded", "Failed")
    said = flags.log(name).replace("\r", "")
    assert re.search(OUTPUT[name][2], said, re.MULTILINE), said
    assert flags.jobs()[name]["phase"] == "Completed"


@pytest.mark.flag("--attach")
def test_a_terminal_is_attached_to_the_job_when_it_runs(flags: Flags) -> None:
    program = "echo ready; read answer; echo got $answer; exit 3"
    environment = {**os.environ, **{key: value for key, value in flags.shared.typist.environment().items() if value}}
    command = [sys.executable, "-m", "fairpool.cli.runai.main", "submit", "joined", "-i", "ubuntu", "--attach"]
    with Terminal([*command, "--backoff-limit", "0", "--", "sh", "-c", program], environment) as terminal:
        terminal.read_until("ready")
        terminal.write("fine\r")
        terminal.read_until("got fine")
    assert terminal.code == 3


@pytest.mark.flag("--name", "--name-prefix")
def test_names_are_given_or_made(flags: Flags) -> None:
    flags.typed("runai submit --name by-flag -i ubuntu -- true")
    flags.typed("runai submit --job-name-prefix sweep -i ubuntu -- true")
    flags.typed("runai submit --name-prefix sweep -i ubuntu -- true")
    assert {"by-flag", "sweep-0", "sweep-1"} <= flags.jobs().keys()


@pytest.mark.flag("--file", "--dry-run", "--output")
def test_a_dry_run_prints_a_file_that_can_be_submitted(flags: Flags) -> None:
    text = flags.typed("runai submit filed -i ubuntu -g 0.25 --dry-run -- echo from a file")
    assert "filed" not in flags.jobs()
    file = flags.folder / "job.yaml"
    file.write_text(text)
    assert flags.typed(f"runai submit -f {file} -o name") == "filed\n"
    assert json.loads(flags.typed(f"runai submit again -f {file} -o json"))["name"] == "again"
    flags.becomes("filed", "Succeeded")
    assert flags.log("filed") == "from a file\n"


@pytest.mark.flag("--interactive", "--label", "--annotation")
def test_kind_labels_and_annotations(flags: Flags) -> None:
    flags.typed("runai submit desk -i ubuntu --interactive -l team=vision -a why=test -- sleep 1000")
    flags.becomes("desk", "Running")
    assert flags.jobs()["desk"]["type"] == "Workspace"
    assert "desk" in flags.typed("runai list --label team=vision")
    assert "desk" not in flags.typed("runai list --label team=speech")
    assert flags.detail("desk").spec["annotations"] == [{"name": "why", "value": "test"}]
    flags.typed("runai delete desk")


@pytest.mark.flag("--inference", "--replicas", "--port")
def test_replicas_of_a_model_run_beside_each_other(flags: Flags) -> None:
    flags.typed("runai submit model -i ubuntu --inference --replicas 2 --port 8000 -- sleep 1000")
    flags.until(lambda: len(flags.pods("model")) == 2, "two replicas run")
    assert flags.jobs()["model"]["type"] == "Inference"
    flags.typed("runai delete model")


@pytest.mark.flag("--python-env")
def test_the_python_of_a_job_is_that_of_its_environment(flags: Flags) -> None:
    import venv

    place = flags.folder / "env"
    venv.create(place, with_pip=False)
    flags.typed(f"runai submit with-env -i python --python-env {place} -- python -c 'import sys; print(sys.prefix)'")
    flags.becomes("with-env", "Succeeded", "Failed")
    assert flags.log("with-env").strip() == str(place)


@pytest.mark.flag("--cpu", "--memory", "--cpu-limit", "--memory-limit")
def test_guaranteed_and_largest_cpu_and_memory(flags: Flags) -> None:
    flags.typed("runai submit sized -i ubuntu --cpu 2 --memory 1G --cpu-limit 3 --memory-limit 2G -- sleep 1000")
    flags.becomes("sized", "Running")
    held = flags.jobs()["sized"]["allocatedResources"]
    assert (held["cpu"], held["memoryBytes"]) == (2.0, 1_000_000_000)
    assert "the largest node" in flags.refused("runai submit large -i ubuntu --cpu 5000")
    orders = [place.read_text() for place in flags.shared.platform.data_directory.machine.rglob("order.json")]
    (order,) = (text for text in orders if '"sized"' in text)
    assert '"cpu_limit_milli":3000' in order
    assert '"memory_limit_bytes":2000000000' in order
    flags.typed("runai delete sized")


@pytest.mark.flag("--pvc", "--new-pvc", "--pvc-exists")
def test_a_claim_outlives_the_job_that_made_it(flags: Flags) -> None:
    flags.typed(
        "runai submit maker -i ubuntu --new-pvc claimname=data,size=1G,path=/data -- sh -c 'echo kept > /data/f'"
    )
    flags.becomes("maker", "Succeeded")
    flags.typed("runai submit short -i ubuntu --pvc data:/d:ro -- cat /d/f")
    flags.typed("runai submit long -i ubuntu --pvc-exists claimname=data,path=/e -- cat /e/f")
    for name in ("short", "long"):
        flags.becomes(name, "Succeeded", "Failed")
        assert flags.log(name) == "kept\n"


@pytest.mark.flag("--backoff-limit")
def test_a_job_without_retries_fails_at_once(flags: Flags) -> None:
    flags.typed("runai submit once -i ubuntu --backoff-limit 0 -- false")
    flags.becomes("once", "Failed")
    assert len(flags.shared.platform.client.history(flags.jobs()["once"]["id"])) == 1


@pytest.mark.flag("--time-limit", "--grace-period")
def test_a_time_limit_ends_a_job_with_its_grace_period(flags: Flags) -> None:
    flags.typed("runai submit limited -i ubuntu --time-limit 1s --grace-period 0 --backoff-limit 0 -- sleep 1000")
    flags.becomes("limited", "Failed", "TimedOut")
    assert "time limit of 1s" in flags.typed("runai why limited")


@pytest.mark.flag("--after")
def test_a_job_starts_after_another(flags: Flags) -> None:
    flags.typed("runai submit first -i ubuntu -- sh -c 'sleep 2; date +%s%N'")
    flags.typed("runai submit second -i ubuntu --after first -- date +%s%N")
    flags.becomes("second", "Succeeded")
    assert int(flags.log("first")) < int(flags.log("second"))


@pytest.mark.flag("--completions", "--parallelism")
def test_runs_so_many_at_a_time_until_so_many_have_ended(flags: Flags) -> None:
    flags.typed("runai submit runs -i ubuntu --completions 3 --parallelism 2 -- true")
    flags.becomes("runs", "Succeeded")
    ended = flags.shared.platform.client.history(flags.jobs()["runs"]["id"])
    assert sorted(each.index for each in ended if each.outcome == "ok") == [0, 1, 2]


@pytest.mark.flag("--preemptible", "--priority")
def test_priority_and_preemptibility(flags: Flags) -> None:
    flags.typed("runai submit loose -i ubuntu --interactive --preemptible -- sleep 1000")
    flags.typed("runai submit urgent -i ubuntu --priority build -- sleep 1000")
    found = flags.jobs()
    assert (found["loose"]["preemptible"], found["loose"]["priority"]) == (True, 75)
    assert found["urgent"]["priority"] == 100
    flags.typed("runai delete loose urgent")


@pytest.mark.flag("--wait-anyway", "--mig-profile", "--extended-resource", "--node-type")
def test_what_no_node_has_is_refused_or_waits_and_says_for_what(flags: Flags) -> None:
    assert "dgx-9" in flags.refused("runai submit nowhere -i ubuntu --node-type dgx-9")
    flags.typed("runai submit typed -i ubuntu --node-type dgx-9 --wait-anyway -- true")
    flags.typed("runai submit slice -i ubuntu --mig-profile 1g.5gb --wait-anyway -- true")
    flags.typed("runai submit odd -i ubuntu --extended-resource example.com/fpga=1 --wait-anyway -- true")
    for name in ("typed", "slice", "odd"):
        flags.until(lambda name=name: flags.jobs()[name]["phaseMessage"], f"it is said why {name} waits")
        assert flags.jobs()[name]["phase"] == "Pending"
    assert "example.com/fpga" in flags.typed("runai why odd")
    flags.typed("runai-adm node update dgx1-1 --label run.ai/type=dgx-9")
    flags.becomes("typed", "Succeeded")
    assert flags.shared.platform.client.history(flags.jobs()["typed"]["id"])[0].node == "dgx1-1"
    flags.typed("runai delete slice odd")


@pytest.mark.flag("--node-pools", "--toleration")
def test_pools_and_taints(flags: Flags) -> None:
    assert "there is no node pool nowhere" in flags.refused("runai submit x -i ubuntu --node-pools nowhere")
    flags.typed("runai-adm node update dgx1-2 --label pool=b")
    flags.typed("runai-adm node-pool create pool-b --label pool=b")
    flags.typed("runai-adm node update dgx1-2 --taint kept=for-tests:NoSchedule")
    flags.typed(
        "runai submit pooled -i ubuntu --node-pools pool-b "
        "--toleration operator=Exists,key=kept,effect=NoSchedule -- true"
    )
    flags.typed("runai submit repelled -i ubuntu --node-pools pool-b --wait-anyway -- true")
    flags.becomes("pooled", "Succeeded")
    assert flags.shared.platform.client.history(flags.jobs()["pooled"]["id"])[0].node == "dgx1-2"
    flags.until(lambda: flags.jobs()["repelled"]["phaseMessage"], "it is said why it waits")
    assert flags.jobs()["repelled"]["phase"] == "Pending"
    flags.typed("runai delete repelled")
    flags.typed("runai-adm node update dgx1-2 --taint kept-")


@pytest.mark.flag("--ttl-after-finish")
def test_a_finished_job_deletes_itself(flags: Flags) -> None:
    flags.typed("runai submit brief -i ubuntu --ttl-after-finish 0s -- true")
    flags.until(lambda: "brief" not in flags.jobs(), "it is gone")


@pytest.mark.flag("--elastic")
def test_an_elastic_job_has_as_many_pods_as_there_is_room_for(flags: Flags) -> None:
    flags.typed("runai submit stretch -i ubuntu -g 1 --elastic --parallelism 2 -- sleep 1000")
    flags.until(lambda: len(flags.pods("stretch")) == 2, "it has grown to two pods")
    flags.typed("runai delete stretch")


@pytest.mark.flag("--master-gpu", "--master-args", "--master-environment", "--master-no-pvcs", "--workers")
def test_the_master_of_a_gang_has_flags_of_its_own(flags: Flags) -> None:
    flags.typed("runai submit owner -i ubuntu --new-pvc claimname=gang,size=1G,path=/d -- sh -c 'echo data > /d/f'")
    flags.becomes("owner", "Succeeded")
    flags.typed(
        "runai submit-dist pytorch gang -i ubuntu -g 1 --workers 1 --pvc gang:/d --backoff-limit 0 --master-gpu 0.5 "
        "--master-environment WHO=chief --master-no-pvcs --master-args \"sh -c 'echo $WHO; ls /d || echo none; "
        "nvidia-smi; sleep 3'\" -- sh -c 'cat /d/f; echo worker $WHO; sleep 1000'"
    )
    flags.becomes("gang", "Succeeded")
    master, worker = (flags.typed(f"runai logs gang --pod {number}") for number in (0, 1))
    assert "chief\n" in master
    assert "none\n" in master
    assert "16255MiB" in master
    assert worker == "data\nworker\n"


@pytest.mark.flag("--master-extended-resource")
def test_a_resource_of_the_master_that_no_node_has_is_named(flags: Flags) -> None:
    line = "runai submit-dist pytorch x -i ubuntu --workers 1 --master-extended-resource example.com/fpga=1"
    assert "example.com/fpga" in flags.refused(f"{line} -- true")


@pytest.mark.flag("--user")
def test_the_owner_is_the_user_who_is_signed_in(flags: Flags) -> None:
    flags.typed("runai submit mine -i ubuntu --user test@run.ai -- true")
    assert flags.jobs()["mine"]["submittedBy"] == "test@run.ai"
    assert "a job belongs to the user who is signed in" in flags.refused("runai submit x -i ubuntu -u ann -- true")


@pytest.mark.flag("--mps", "--seccomp-profile", "--always-pull-image")
def test_what_this_runtime_cannot_do_is_refused_by_name(flags: Flags) -> None:
    assert "--mps is not supported" in flags.refused("runai submit x -i ubuntu -g 0.5 --mps -- true")
    assert "--seccomp-profile is not" in flags.refused("runai submit x -i ubuntu --seccomp-profile y -- true")
    assert "--image-pull-policy is not" in flags.refused("runai submit x -i ubuntu --always-pull-image -- true")
    assert "x" not in flags.jobs()


@pytest.mark.flag("--extended-resource")
def test_gpus_are_not_an_extended_resource(flags: Flags) -> None:
    said = flags.refused("runai submit x -i ubuntu --extended-resource nvidia.com/gpu=1 -- true")
    assert "nvidia.com/gpu is not an extended resource: request GPUs with --gpu" in said
