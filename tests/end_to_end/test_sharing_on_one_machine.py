"""What the product promises to people who share GPUs, as they see it: typed on a real platform, with real processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fairpool.api import workload_spec as work
from tests.end_to_end.shared_platform import SLEEP, SharedPlatform
from tests.end_to_end.typist import Typist
from tests.running_platform import Running

pytestmark = pytest.mark.slow

WHOLE_V100_MIB = 32510


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedPlatform]:
    folder = tmp_path_factory.mktemp("sharing")
    platform = Running(folder / "data")
    try:
        platform.up("--nodes", "simulated")
        typist = Typist(str(platform.status["address"]), folder)
        platform.sign_in(folder / "admin" / "config")  # where the typist keeps that of `admin`
        yield SharedPlatform(platform, typist)
    finally:
        platform.clean_up()


@pytest.fixture
def shared(opened: SharedPlatform) -> Iterator[SharedPlatform]:
    yield opened
    opened.tidy()


# --- quotas --------------------------------------------------------------------------------------------------------


def test_interactive_work_stays_within_the_quota_and_follows_it(shared: SharedPlatform) -> None:
    """F-12, F-14, F-42, F-54: what waits says why, and starts when the quota is raised."""
    shared.project("vision", "-g 2")
    shared.submit("vision", "first", "--interactive -g 2")
    shared.becomes("vision", "first", "Running")
    shared.submit("vision", "second", "--interactive -g 1")
    shared.until(lambda: shared.jobs("vision")["second"]["phaseMessage"], "it is said why it waits")
    assert shared.status("vision", "second") == "Pending"
    why = shared.typed("runai why second -p vision")
    assert "they hold 2 of a quota of 2 GPUs, and this job requests 1" in why
    shared.typed("runai-adm project update vision -g 3")
    shared.becomes("vision", "second", "Running")
    assert shared.status("vision", "first") == "Running"


def test_training_of_a_project_without_over_quota_waits_although_gpus_are_idle(shared: SharedPlatform) -> None:
    """F-19."""
    shared.project("strict", "-g 1 --over-quota off")
    shared.submit("strict", "first", "-g 1")
    shared.becomes("strict", "first", "Running")
    shared.submit("strict", "second", "-g 1")
    shared.until(lambda: shared.jobs("strict")["second"]["phaseMessage"], "it is said why it waits")
    assert shared.running("strict") == ["first"]
    shared.typed("runai-adm project update strict --over-quota medium")
    shared.becomes("strict", "second", "Running")


def test_a_department_grants_no_more_than_it_has(shared: SharedPlatform) -> None:
    """F-25, F-26."""
    shared.typed("runai-adm department create research -g 2")
    shared.project("lab", "-g 8 --department research")
    shared.submit("lab", "first", "--interactive -g 2")
    shared.becomes("lab", "first", "Running")
    shared.submit("lab", "second", "--interactive -g 1")
    shared.until(
        lambda: "in department research they hold 2" in shared.typed("runai why second -p lab"),
        "it is said why it waits",
    )
    shared.typed("runai-adm department update research -g 3")
    shared.becomes("lab", "second", "Running")
    shared.tidy()
    shared.typed("runai-adm department delete research")


def test_a_project_gets_its_quota_back_from_another_department(shared: SharedPlatform) -> None:
    """The borrower is in the shipped department, whose quota was never set; nothing has to be configured for it."""
    shared.project("team-a", "-g 4")
    shared.submit("team-a", "old", "-g 8")
    shared.submit("team-a", "young", "-g 8")
    shared.until(lambda: len(shared.running("team-a")) == 2, "both machines are full")
    shared.typed("runai-adm department create research -g 8")
    shared.project("speech", "-g 4 --department research")
    shared.submit("speech", "owed", "-g 4")
    shared.becomes("speech", "owed", "Running")
    assert shared.running("team-a") == ["old"]
    # An unlimited department keeps what its projects use, and is named for it.
    shared.typed("runai delete owed -p speech")
    shared.becomes("team-a", "young", "Running")
    shared.typed("runai-adm department update default -g unlimited")
    shared.submit("speech", "waits", "-g 4")
    named = "department default has an unlimited quota, so its GPUs never count as over quota"
    shared.until(lambda: named in " ".join(shared.typed("runai why waits -p speech").split()), "it is named")
    assert len(shared.running("team-a")) == 2
    shared.typed("runai-adm department update default -g unset")
    shared.becomes("speech", "waits", "Running")
    shared.tidy()
    shared.typed("runai-adm department delete research")


def test_what_can_never_start_is_refused_and_can_be_queued_all_the_same(shared: SharedPlatform) -> None:
    shared.project("greedy", "-g 4")
    said = shared.typist.refused(f"runai submit big -p greedy -g 20 {SLEEP}")
    assert "the largest node in node pool default has 8 GPUs" in said
    assert "--wait-anyway" in said
    gang = "runai submit-dist pytorch gang -p greedy -g 1 --workers"
    assert "its 20 pods start together and need 20 GPUs" in shared.typist.refused(f"{gang} 19 {SLEEP}")
    assert "submitted successfully: 20 pods (1 master + 19 workers), 20 GPUs." in shared.typed(
        f"{gang} 19 --wait-anyway {SLEEP}"
    )
    never = (
        "cannot start on the current nodes: it needs 20 GPUs at once, and the 2 nodes that can run it have 16 in total"
    )
    shared.until(lambda: never in " ".join(shared.typed("runai why gang -p greedy").split()), "it is said")


def test_quotas_of_three_and_one_share_the_machines_three_to_one(shared: SharedPlatform) -> None:
    """F-30."""
    shared.project("three", "-g 3")
    shared.project("one", "-g 1")
    for project in ("one", "three"):
        for number in range(16):
            shared.submit(project, f"job-{number}", "-g 1")
    shared.until(
        lambda: (len(shared.running("three")), len(shared.running("one"))) == (12, 4), "they share 12 and 4 GPUs"
    )


def test_more_jobs_than_gpus_run_to_their_end_unattended(shared: SharedPlatform) -> None:
    """F-46: ten jobs, of which four have room at a time."""
    shared.project("batch", "-g 4")
    for number in range(10):
        shared.submit("batch", f"job-{number}", "-g 4", "-i ubuntu -- sleep 0.3")
    shared.until(
        lambda: {job["classicStatus"] for job in shared.jobs("batch").values()} == {"Succeeded"}, "all have ended well"
    )
    assert len(shared.jobs("batch")) == 10


# --- who gives way -------------------------------------------------------------------------------------------------


def test_borrowed_gpus_go_back_to_whom_they_belong(shared: SharedPlatform) -> None:
    """F-39, F-56, F-58: preemptible interactive work may exceed the quota, and is told who took its GPUs."""
    shared.project("lender", "-g 14")
    shared.project("borrower", "-g 2")
    shared.submit("borrower", "notebook", "--interactive --preemptible -g 8")
    shared.submit("lender", "first", "-g 8")
    shared.becomes("borrower", "notebook", "Running")
    shared.becomes("lender", "first", "Running")
    shared.submit("lender", "second", "-g 6")
    shared.becomes("lender", "second", "Running")
    shared.becomes("borrower", "notebook", "Preempted")
    assert re.search(
        r"Evicted .* for second: borrower is 6 GPUs over its quota of 2, lender needs 6 within its quota$",
        shared.typed("runai history notebook -p borrower"),
        re.MULTILINE,
    )


def test_interactive_work_comes_before_training_of_its_project(shared: SharedPlatform) -> None:
    """F-40, F-52: the training gives way and comes back."""
    shared.project("busy", "-g 16")
    shared.submit("busy", "old", "-g 8")
    shared.submit("busy", "young", "-g 8")
    shared.until(lambda: shared.running("busy") == ["old", "young"], "both machines are full")
    shared.submit("busy", "notebook", "--interactive -g 1")
    shared.becomes("busy", "notebook", "Running")
    shared.until(lambda: shared.running("busy") == ["notebook", "old"], "the younger training waits")
    shared.typed("runai delete notebook -p busy")
    shared.becomes("busy", "young", "Running")
    assert "notebook of the same project has a higher priority" in shared.typed("runai history young -p busy")


def test_interactive_work_ends_when_its_time_is_over_and_training_goes_on(shared: SharedPlatform) -> None:
    """F-55, F-57."""
    shared.project("short", "-g 4 --interactive-time-limit 2s")
    shared.submit("short", "training", "-g 1")
    shared.submit("short", "notebook", "--interactive -g 1")
    shared.becomes("short", "notebook", "TimedOut")
    assert "reached the time limit of 2s for interactive jobs in project short" in shared.typed(
        "runai describe job notebook -p short"
    )
    assert shared.running("short") == ["training"]


def test_inference_comes_first_stays_within_quota_and_stays_until_it_is_stopped(shared: SharedPlatform) -> None:
    """F-62 to F-66."""
    shared.project("models", "-g 16")
    shared.submit("models", "old", "-g 8")
    shared.submit("models", "young", "-g 8")
    shared.until(lambda: len(shared.running("models")) == 2, "both machines are full")
    shared.submit("models", "model", "--inference -g 8 --port 8000")
    shared.becomes("models", "model", "Running")
    shared.submit("models", "other", "--interactive -g 8")
    shared.becomes("models", "other", "Running")
    shared.submit("models", "more", "--inference -g 1 --port 8001")
    shared.until(lambda: "a quota of 16 GPUs" in shared.typed("runai why more -p models"), "it is said why it waits")
    assert shared.running("models") == ["model", "other"]
    shared.typed("runai delete model -p models")
    shared.becomes("models", "more", "Running")


# --- kinds of work -------------------------------------------------------------------------------------------------


def test_a_sweep_runs_so_many_at_a_time_until_so_many_have_ended_well(shared: SharedPlatform) -> None:
    """F-67."""
    shared.project("tuning", "-g 2")
    shared.submit("tuning", "sweep", "-g 1 --parallelism 2 --completions 5", "-i ubuntu -- sleep 0.5")
    seen = []

    def is_done() -> bool:
        job = shared.jobs("tuning")["sweep"]
        seen.append(job["runningPods"])
        return bool(job["classicStatus"] == "Succeeded")

    shared.until(is_done, "the sweep is done")
    assert max(seen) == 2
    pods = re.findall(r"^sweep-(\d)-0 +Succeeded ", shared.typed("runai history sweep -p tuning"), re.MULTILINE)
    assert pods == ["0", "1", "2", "3", "4"]


def test_a_gang_starts_as_a_whole_or_not_at_all(shared: SharedPlatform) -> None:
    """F-47, F-48, F-68: seven GPUs are free, which is enough for one worker."""
    shared.project("gangs", "-g 16")
    shared.submit("gangs", "all", "-g 8")
    shared.submit("gangs", "some", "-g 1")
    shared.until(lambda: shared.running("gangs") == ["all", "some"], "nine GPUs are taken")
    spec = {"image": "ubuntu", "numWorkers": 2, "command": "sleep", "args": "1000", "compute": {"gpu": "4"}}
    body = {"name": "gang", "projectId": "gangs", "spec": spec}
    shared.platform.client.submit(work.SubmitDistributed.model_validate(body))
    shared.until(lambda: shared.jobs("gangs")["gang"]["phaseMessage"], "it is said why it waits")
    assert shared.jobs("gangs")["gang"]["runningPods"] == 0
    shared.typed("runai delete some -p gangs")
    shared.until(lambda: shared.jobs("gangs")["gang"]["runningPods"] == 2, "both workers run")


def test_suspended_and_failed_work_stays_in_the_list(shared: SharedPlatform) -> None:
    """F-111, F-112, F-160."""
    shared.project("kept", "-g 2")
    shared.submit("kept", "space", "--interactive -g 1")
    shared.becomes("kept", "space", "Running")
    shared.submit("kept", "bad", "-g 1 --backoff-limit 0", "-i ubuntu -- false")
    shared.becomes("kept", "bad", "Failed")
    shared.typed("runai suspend space -p kept")
    shared.becomes("kept", "space", "Suspended")
    listed = shared.typed("runai list -p kept")
    assert re.search(r"^bad +Failed .* - \(1\.00\)", listed, re.MULTILINE)
    assert re.search(r"^space +Suspended .* 0\.00 \(1\.00\)", listed, re.MULTILINE)
    shared.typed("runai resume space -p kept")
    shared.becomes("kept", "space", "Running")
    shared.typed("runai delete bad -p kept")
    shared.until(lambda: "bad" not in shared.jobs("kept"), "it is gone from the list")


# --- GPUs and parts of them ----------------------------------------------------------------------------------------


def visible(shared: SharedPlatform, name: str) -> str:
    return shared.says("parts", name, "printenv NVIDIA_VISIBLE_DEVICES").strip()


def memory_mib(shared: SharedPlatform, name: str) -> list[int]:
    return [int(each) for each in re.findall(r"/ (\d+)MiB", shared.says("parts", name, "nvidia-smi"))]


def test_gpus_are_given_whole_in_parts_and_by_memory(shared: SharedPlatform) -> None:
    """F-38, F-69, F-73, F-75, F-76, F-78, F-79, F-85: what a pod sees is its share, and eight share one device."""
    shared.project("parts", "-g 8")
    eighths = [f"eighth-{number}" for number in range(8)]
    for name in eighths:
        shared.submit("parts", name, "-g 0.125")
    for name, flags in {"pair": "-g 2", "half": "-g 0.5", "third": "-g 0.3", "memory": "--gpu-memory 4Gi"}.items():
        shared.submit("parts", name, flags)
    shared.until(lambda: len(shared.running("parts")) == 12, "all of them run")
    assert len({visible(shared, name) for name in eighths}) == 1
    pair = visible(shared, "pair").split(",")
    assert len(set(pair)) == 2
    assert visible(shared, eighths[0]) not in pair
    assert memory_mib(shared, "pair") == [WHOLE_V100_MIB] * 2
    assert memory_mib(shared, "half") == [16255]
    assert memory_mib(shared, "third") == [9753]
    assert memory_mib(shared, "memory") == [4096]
    assert re.search(r"^memory +Running .* 0\.13 \(4096MiB\)", shared.typed("runai list -p parts"), re.MULTILINE)
    assert memory_mib(shared, "eighth-0") == [WHOLE_V100_MIB // 8]


# --- machines ------------------------------------------------------------------------------------------------------


def node_of(shared: SharedPlatform, project: str, name: str) -> str:
    return str(shared.jobs(project)[name]["currentNodes"][0])


def test_work_goes_to_nodes_of_the_type_that_it_or_its_project_names(shared: SharedPlatform) -> None:
    """F-70, F-92, F-94, F-95."""
    shared.typed("runai-adm node update dgx1-1 --label run.ai/type=weak")
    shared.typed("runai-adm node update dgx1-2 --label run.ai/type=strong")
    assert "run.ai/type=weak" in shared.typed("runai describe node dgx1-1")
    shared.project("kept", "-g 16 --node-types-train strong --node-types-interactive weak")
    shared.project("free", "-g 0")
    shared.submit("kept", "training", "-g 1")
    shared.submit("kept", "notebook", "--interactive -g 1")
    shared.submit("free", "chosen", "-g 1 --node-type weak")
    for project, name, node in (
        ("kept", "training", "dgx1-2"),
        ("kept", "notebook", "dgx1-1"),
        ("free", "chosen", "dgx1-1"),
    ):
        shared.becomes(project, name, "Running")
        assert node_of(shared, project, name) == node
    shared.submit("kept", "large", "-g 8")
    shared.until(lambda: shared.jobs("kept")["large"]["phaseMessage"], "it is said why it waits")
    assert shared.status("kept", "large") == "Pending"
    for node in ("dgx1-1", "dgx1-2"):
        shared.typed(f"runai-adm node update {node} --label run.ai/type-")


def test_a_machine_is_taken_out_and_put_back(shared: SharedPlatform) -> None:
    """F-248, F-249, F-250: training moves by itself, interactive work waits for a person."""
    shared.project("moved", "-g 8")
    shared.submit("moved", "notebook", "--interactive -g 1")
    shared.submit("moved", "training", "-g 1")
    for name in ("notebook", "training"):
        shared.becomes("moved", name, "Running")
    drained = node_of(shared, "moved", "training")
    assert node_of(shared, "moved", "notebook") == drained
    shared.typed(f"runai-adm node drain {drained}")
    shared.until(lambda: shared.jobs("moved")["training"]["currentNodes"] not in ([], [drained]), "training has moved")
    shared.becomes("moved", "training", "Running")
    shared.becomes("moved", "notebook", "Suspended")
    assert "is being drained (runai=drain:NoExecute)" in shared.typed("runai history training -p moved")
    shared.submit("moved", "whole", "-g 8")
    shared.until(lambda: shared.jobs("moved")["whole"]["phaseMessage"], "it is said why it waits")
    shared.typed(f"runai-adm node undrain {drained}")
    shared.becomes("moved", "whole", "Running")
    assert node_of(shared, "moved", "whole") == drained
    shared.typed("runai resume notebook -p moved")
    shared.becomes("moved", "notebook", "Running")
