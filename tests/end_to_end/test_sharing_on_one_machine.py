"""What the product promises to people who share GPUs, as they see it: typed on a real platform, with real processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fairpool.api import workload_spec as work
from tests.end_to_end.office import SLEEP, Office
from tests.end_to_end.typist import Typist
from tests.running_platform import Running

pytestmark = pytest.mark.slow

WHOLE_V100_MIB = 32510


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("sharing")
    platform = Running(folder / "data")
    try:
        platform.up("--nodes", "simulated")
        typist = Typist(str(platform.status["address"]), folder)
        platform.sign_in(folder / "admin" / "config")  # where the typist keeps that of `admin`
        yield Office(platform, typist)
    finally:
        platform.clean_up()


@pytest.fixture
def office(opened: Office) -> Iterator[Office]:
    yield opened
    opened.tidy()


# --- quotas --------------------------------------------------------------------------------------------------------


def test_interactive_work_stays_within_the_quota_and_follows_it(office: Office) -> None:
    """F-12, F-14, F-42, F-54: what waits says why, and starts when the quota is raised."""
    office.project("vision", "-g 2")
    office.submit("vision", "first", "--interactive -g 2")
    office.becomes("vision", "first", "Running")
    office.submit("vision", "second", "--interactive -g 1")
    office.until(lambda: office.jobs("vision")["second"]["phaseMessage"], "it is said why it waits")
    assert office.status("vision", "second") == "Pending"
    why = office.typed("runai why second -p vision")
    assert "they hold 2 of a quota of 2 GPUs, and this job requests 1" in why
    office.typed("runai-adm project update vision -g 3")
    office.becomes("vision", "second", "Running")
    assert office.status("vision", "first") == "Running"


def test_training_of_a_project_without_over_quota_waits_although_gpus_are_idle(office: Office) -> None:
    """F-19."""
    office.project("strict", "-g 1 --over-quota off")
    office.submit("strict", "first", "-g 1")
    office.becomes("strict", "first", "Running")
    office.submit("strict", "second", "-g 1")
    office.until(lambda: office.jobs("strict")["second"]["phaseMessage"], "it is said why it waits")
    assert office.running("strict") == ["first"]
    office.typed("runai-adm project update strict --over-quota medium")
    office.becomes("strict", "second", "Running")


def test_a_department_grants_no_more_than_it_has(office: Office) -> None:
    """F-25, F-26."""
    office.typed("runai-adm department create research -g 2")
    office.project("lab", "-g 8 --department research")
    office.submit("lab", "first", "--interactive -g 2")
    office.becomes("lab", "first", "Running")
    office.submit("lab", "second", "--interactive -g 1")
    office.until(
        lambda: "in department research they hold 2" in office.typed("runai why second -p lab"),
        "it is said why it waits",
    )
    office.typed("runai-adm department update research -g 3")
    office.becomes("lab", "second", "Running")
    office.tidy()
    office.typed("runai-adm department delete research")


def test_a_project_gets_its_quota_back_from_another_department(office: Office) -> None:
    """The borrower is in the shipped department, whose quota was never set; nothing has to be configured for it."""
    office.project("team-a", "-g 4")
    office.submit("team-a", "old", "-g 8")
    office.submit("team-a", "young", "-g 8")
    office.until(lambda: len(office.running("team-a")) == 2, "both machines are full")
    office.typed("runai-adm department create research -g 8")
    office.project("speech", "-g 4 --department research")
    office.submit("speech", "owed", "-g 4")
    office.becomes("speech", "owed", "Running")
    assert office.running("team-a") == ["old"]
    # An unlimited department keeps what its projects use, and is named for it.
    office.typed("runai delete owed -p speech")
    office.becomes("team-a", "young", "Running")
    office.typed("runai-adm department update default -g unlimited")
    office.submit("speech", "waits", "-g 4")
    named = "department default has an unlimited quota, so its GPUs never count as over quota"
    office.until(lambda: named in " ".join(office.typed("runai why waits -p speech").split()), "it is named")
    assert len(office.running("team-a")) == 2
    office.typed("runai-adm department update default -g unset")
    office.becomes("speech", "waits", "Running")
    office.tidy()
    office.typed("runai-adm department delete research")


def test_what_can_never_start_is_refused_and_can_be_queued_all_the_same(office: Office) -> None:
    office.project("greedy", "-g 4")
    said = office.typist.refused(f"runai submit big -p greedy -g 20 {SLEEP}")
    assert "the largest node in node pool default has 8 GPUs" in said
    assert "--wait-anyway" in said
    gang = "runai submit-dist pytorch gang -p greedy -g 1 --workers"
    assert "its 20 pods start together and need 20 GPUs" in office.typist.refused(f"{gang} 19 {SLEEP}")
    assert "submitted successfully: 20 pods (1 master + 19 workers), 20 GPUs." in office.typed(
        f"{gang} 19 --wait-anyway {SLEEP}"
    )
    never = (
        "cannot start on the current nodes: it needs 20 GPUs at once, and the 2 nodes that can run it have 16 in total"
    )
    office.until(lambda: never in " ".join(office.typed("runai why gang -p greedy").split()), "it is said")


def test_quotas_of_three_and_one_share_the_machines_three_to_one(office: Office) -> None:
    """F-30."""
    office.project("three", "-g 3")
    office.project("one", "-g 1")
    for project in ("one", "three"):
        for number in range(16):
            office.submit(project, f"job-{number}", "-g 1")
    office.until(
        lambda: (len(office.running("three")), len(office.running("one"))) == (12, 4), "they share 12 and 4 GPUs"
    )


def test_more_jobs_than_gpus_run_to_their_end_unattended(office: Office) -> None:
    """F-46: ten jobs, of which four have room at a time."""
    office.project("batch", "-g 4")
    for number in range(10):
        office.submit("batch", f"job-{number}", "-g 4", "-i ubuntu -- sleep 0.3")
    office.until(
        lambda: {job["classicStatus"] for job in office.jobs("batch").values()} == {"Succeeded"}, "all have ended well"
    )
    assert len(office.jobs("batch")) == 10


# --- who gives way -------------------------------------------------------------------------------------------------


def test_borrowed_gpus_go_back_to_whom_they_belong(office: Office) -> None:
    """F-39, F-56, F-58: preemptible interactive work may exceed the quota, and is told who took its GPUs."""
    office.project("lender", "-g 14")
    office.project("borrower", "-g 2")
    office.submit("borrower", "notebook", "--interactive --preemptible -g 8")
    office.submit("lender", "first", "-g 8")
    office.becomes("borrower", "notebook", "Running")
    office.becomes("lender", "first", "Running")
    office.submit("lender", "second", "-g 6")
    office.becomes("lender", "second", "Running")
    office.becomes("borrower", "notebook", "Preempted")
    assert re.search(
        r"Evicted .* for second: borrower is 6 GPUs over its quota of 2, lender needs 6 within its quota$",
        office.typed("runai history notebook -p borrower"),
        re.MULTILINE,
    )


def test_interactive_work_comes_before_training_of_its_project(office: Office) -> None:
    """F-40, F-52: the training gives way and comes back."""
    office.project("busy", "-g 16")
    office.submit("busy", "old", "-g 8")
    office.submit("busy", "young", "-g 8")
    office.until(lambda: office.running("busy") == ["old", "young"], "both machines are full")
    office.submit("busy", "notebook", "--interactive -g 1")
    office.becomes("busy", "notebook", "Running")
    office.until(lambda: office.running("busy") == ["notebook", "old"], "the younger training waits")
    office.typed("runai delete notebook -p busy")
    office.becomes("busy", "young", "Running")
    assert "notebook of the same project has a higher priority" in office.typed("runai history young -p busy")


def test_interactive_work_ends_when_its_time_is_over_and_training_goes_on(office: Office) -> None:
    """F-55, F-57."""
    office.project("short", "-g 4 --interactive-time-limit 2s")
    office.submit("short", "training", "-g 1")
    office.submit("short", "notebook", "--interactive -g 1")
    office.becomes("short", "notebook", "TimedOut")
    assert "reached the time limit of 2s for interactive jobs in project short" in office.typed(
        "runai describe job notebook -p short"
    )
    assert office.running("short") == ["training"]


def test_inference_comes_first_stays_within_quota_and_stays_until_it_is_stopped(office: Office) -> None:
    """F-62 to F-66."""
    office.project("models", "-g 16")
    office.submit("models", "old", "-g 8")
    office.submit("models", "young", "-g 8")
    office.until(lambda: len(office.running("models")) == 2, "both machines are full")
    office.submit("models", "model", "--inference -g 8 --port 8000")
    office.becomes("models", "model", "Running")
    office.submit("models", "other", "--interactive -g 8")
    office.becomes("models", "other", "Running")
    office.submit("models", "more", "--inference -g 1 --port 8001")
    office.until(lambda: "a quota of 16 GPUs" in office.typed("runai why more -p models"), "it is said why it waits")
    assert office.running("models") == ["model", "other"]
    office.typed("runai delete model -p models")
    office.becomes("models", "more", "Running")


# --- kinds of work -------------------------------------------------------------------------------------------------


def test_a_sweep_runs_so_many_at_a_time_until_so_many_have_ended_well(office: Office) -> None:
    """F-67."""
    office.project("tuning", "-g 2")
    office.submit("tuning", "sweep", "-g 1 --parallelism 2 --completions 5", "-i ubuntu -- sleep 0.5")
    seen = []

    def is_done() -> bool:
        job = office.jobs("tuning")["sweep"]
        seen.append(job["runningPods"])
        return bool(job["classicStatus"] == "Succeeded")

    office.until(is_done, "the sweep is done")
    assert max(seen) == 2
    pods = re.findall(r"^sweep-(\d)-0 +Succeeded ", office.typed("runai history sweep -p tuning"), re.MULTILINE)
    assert pods == ["0", "1", "2", "3", "4"]


def test_a_gang_starts_as_a_whole_or_not_at_all(office: Office) -> None:
    """F-47, F-48, F-68: seven GPUs are free, which is enough for one worker."""
    office.project("gangs", "-g 16")
    office.submit("gangs", "all", "-g 8")
    office.submit("gangs", "some", "-g 1")
    office.until(lambda: office.running("gangs") == ["all", "some"], "nine GPUs are taken")
    spec = {"image": "ubuntu", "numWorkers": 2, "command": "sleep", "args": "1000", "compute": {"gpu": "4"}}
    body = {"name": "gang", "projectId": "gangs", "spec": spec}
    office.platform.client.submit(work.SubmitDistributed.model_validate(body))
    office.until(lambda: office.jobs("gangs")["gang"]["phaseMessage"], "it is said why it waits")
    assert office.jobs("gangs")["gang"]["runningPods"] == 0
    office.typed("runai delete some -p gangs")
    office.until(lambda: office.jobs("gangs")["gang"]["runningPods"] == 2, "both workers run")


def test_suspended_and_failed_work_stays_in_the_list(office: Office) -> None:
    """F-111, F-112, F-160."""
    office.project("kept", "-g 2")
    office.submit("kept", "space", "--interactive -g 1")
    office.becomes("kept", "space", "Running")
    office.submit("kept", "bad", "-g 1 --backoff-limit 0", "-i ubuntu -- false")
    office.becomes("kept", "bad", "Failed")
    office.typed("runai suspend space -p kept")
    office.becomes("kept", "space", "Suspended")
    listed = office.typed("runai list -p kept")
    assert re.search(r"^bad +Failed .* - \(1\.00\)", listed, re.MULTILINE)
    assert re.search(r"^space +Suspended .* 0\.00 \(1\.00\)", listed, re.MULTILINE)
    office.typed("runai resume space -p kept")
    office.becomes("kept", "space", "Running")
    office.typed("runai delete bad -p kept")
    office.until(lambda: "bad" not in office.jobs("kept"), "it is gone from the list")


# --- GPUs and parts of them ----------------------------------------------------------------------------------------


def visible(office: Office, name: str) -> str:
    return office.says("parts", name, "printenv NVIDIA_VISIBLE_DEVICES").strip()


def memory_mib(office: Office, name: str) -> list[int]:
    return [int(each) for each in re.findall(r"/ (\d+)MiB", office.says("parts", name, "nvidia-smi"))]


def test_gpus_are_given_whole_in_parts_and_by_memory(office: Office) -> None:
    """F-38, F-69, F-73, F-75, F-76, F-78, F-79, F-85: what a pod sees is its share, and eight share one device."""
    office.project("parts", "-g 8")
    eighths = [f"eighth-{number}" for number in range(8)]
    for name in eighths:
        office.submit("parts", name, "-g 0.125")
    for name, flags in {"pair": "-g 2", "half": "-g 0.5", "third": "-g 0.3", "memory": "--gpu-memory 4Gi"}.items():
        office.submit("parts", name, flags)
    office.until(lambda: len(office.running("parts")) == 12, "all of them run")
    assert len({visible(office, name) for name in eighths}) == 1
    pair = visible(office, "pair").split(",")
    assert len(set(pair)) == 2
    assert visible(office, eighths[0]) not in pair
    assert memory_mib(office, "pair") == [WHOLE_V100_MIB] * 2
    assert memory_mib(office, "half") == [16255]
    assert memory_mib(office, "third") == [9753]
    assert memory_mib(office, "memory") == [4096]
    assert re.search(r"^memory +Running .* 0\.13 \(4096MiB\)", office.typed("runai list -p parts"), re.MULTILINE)
    assert memory_mib(office, "eighth-0") == [WHOLE_V100_MIB // 8]


# --- machines ------------------------------------------------------------------------------------------------------


def node_of(office: Office, project: str, name: str) -> str:
    return str(office.jobs(project)[name]["currentNodes"][0])


def test_work_goes_to_nodes_of_the_type_that_it_or_its_project_names(office: Office) -> None:
    """F-70, F-92, F-94, F-95."""
    office.typed("runai-adm node update dgx1-1 --label run.ai/type=weak")
    office.typed("runai-adm node update dgx1-2 --label run.ai/type=strong")
    assert "run.ai/type=weak" in office.typed("runai describe node dgx1-1")
    office.project("kept", "-g 16 --node-types-train strong --node-types-interactive weak")
    office.project("free", "-g 0")
    office.submit("kept", "training", "-g 1")
    office.submit("kept", "notebook", "--interactive -g 1")
    office.submit("free", "chosen", "-g 1 --node-type weak")
    for project, name, node in (
        ("kept", "training", "dgx1-2"),
        ("kept", "notebook", "dgx1-1"),
        ("free", "chosen", "dgx1-1"),
    ):
        office.becomes(project, name, "Running")
        assert node_of(office, project, name) == node
    office.submit("kept", "large", "-g 8")
    office.until(lambda: office.jobs("kept")["large"]["phaseMessage"], "it is said why it waits")
    assert office.status("kept", "large") == "Pending"
    for node in ("dgx1-1", "dgx1-2"):
        office.typed(f"runai-adm node update {node} --label run.ai/type-")


def test_a_machine_is_taken_out_and_put_back(office: Office) -> None:
    """F-248, F-249, F-250: training moves by itself, interactive work waits for a person."""
    office.project("moved", "-g 8")
    office.submit("moved", "notebook", "--interactive -g 1")
    office.submit("moved", "training", "-g 1")
    for name in ("notebook", "training"):
        office.becomes("moved", name, "Running")
    drained = node_of(office, "moved", "training")
    assert node_of(office, "moved", "notebook") == drained
    office.typed(f"runai-adm node drain {drained}")
    office.until(lambda: office.jobs("moved")["training"]["currentNodes"] not in ([], [drained]), "training has moved")
    office.becomes("moved", "training", "Running")
    office.becomes("moved", "notebook", "Suspended")
    assert "is being drained (runai=drain:NoExecute)" in office.typed("runai history training -p moved")
    office.submit("moved", "whole", "-g 8")
    office.until(lambda: office.jobs("moved")["whole"]["phaseMessage"], "it is said why it waits")
    office.typed(f"runai-adm node undrain {drained}")
    office.becomes("moved", "whole", "Running")
    assert node_of(office, "moved", "whole") == drained
    office.typed("runai resume notebook -p moved")
    office.becomes("moved", "notebook", "Running")
