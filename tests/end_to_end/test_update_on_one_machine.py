"""`runai update` on a real platform: what a change does to pods that run, wait or are suspended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.shared_platform import SharedPlatform
from tests.end_to_end.typist import Typist
from tests.running_platform import Running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedPlatform]:
    folder = tmp_path_factory.mktemp("update")
    platform = Running(folder / "data")
    try:
        platform.up("--nodes", "simulated")
        typist = Typist(str(platform.status["address"]), folder)
        platform.sign_in(folder / "admin" / "config")
        yield SharedPlatform(platform, typist)
    finally:
        platform.clean_up()


@pytest.fixture
def shared(opened: SharedPlatform) -> Iterator[SharedPlatform]:
    yield opened
    opened.tidy()


def pods(shared: SharedPlatform, project: str, name: str) -> set[str]:
    found = shared.platform.client.pods(shared.jobs(project)[name]["id"])
    return {each.id for each in found if each.phase == "running"}


def test_a_running_job_gets_a_time_limit_and_is_stopped_by_it(shared: SharedPlatform) -> None:
    shared.project("limits", "-g 2")
    shared.submit("limits", "job", "-g 1")
    shared.becomes("limits", "job", "Running")
    before = pods(shared, "limits", "job")
    shared.typed("runai update job -p limits -l team=vision --backoff-limit 0")
    assert shared.jobs("limits")["job"]["labels"] == {"team": "vision"}
    assert pods(shared, "limits", "job") == before, "it was not restarted"
    described = shared.typed("runai describe job job -p limits")
    assert "\nCHANGED SINCE: --backoff-limit, --label (by updates; -o yaml shows all values)\n" in described
    shared.typed("runai update job -p limits --time-limit 1s")
    shared.becomes("limits", "job", "Failed", "TimedOut")
    assert "time limit of 1s" in shared.typed("runai why job -p limits")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--interactive", "--interactive belongs to a submit"),
        ("--name other", "--name belongs to a submit"),
        ("--array=3", "--array belongs to a submit"),
        ("--tempalte x", "there is no flag --tempalte: did you mean --template? It belongs to a submit"),
        ("--tiem-limit 2h", "there is no flag --tiem-limit: did you mean --time-limit"),
    ],
)
def test_a_flag_that_only_a_submit_has_is_named_as_such(shared: SharedPlatform, flags: str, words: str) -> None:
    assert words in " ".join(shared.typist.refused(f"runai update job -p limits {flags}").split())


def test_a_job_that_asked_for_too_much_is_given_less_and_starts(shared: SharedPlatform) -> None:
    shared.project("waits", "-g 2")
    shared.submit("waits", "job", "--interactive -g 8 --wait-anyway")
    shared.until(lambda: shared.jobs("waits")["job"]["phaseMessage"], "it is said why it waits")
    answer = shared.typist.type("runai update job -p waits -g 2")
    assert answer.code == 0
    assert "a pod that has started in the meantime keeps the former value" in answer.err
    shared.becomes("waits", "job", "Running")
    assert shared.jobs("waits")["job"]["allocatedResources"]["gpu"] == 2


def test_what_runs_is_changed_by_suspend_update_and_resume(shared: SharedPlatform) -> None:
    shared.project("again", "-g 2")
    shared.submit("again", "job", "-g 1 -e GREETING=hello")
    shared.becomes("again", "job", "Running")
    refused = shared.typist.refused("runai update job -p again -e GREETING=bonjour -g 2")
    assert "--environment cannot be changed while job runs: suspend it first: runai suspend job" in refused
    assert shared.says("again", "job", "printenv GREETING") == "hello\n"
    shared.typed("runai suspend job -p again")
    shared.typed("runai update job -p again -e GREETING=bonjour -g 2")
    shared.typed("runai resume job -p again")
    shared.becomes("again", "job", "Running")
    shared.until(lambda: shared.jobs("again")["job"]["allocatedResources"]["gpu"] == 2, "it has two GPUs")
    assert shared.says("again", "job", "printenv GREETING") == "bonjour\n"


def test_replicas_of_a_model_are_added_and_removed_and_its_program_waits(shared: SharedPlatform) -> None:
    shared.project("models", "-g 4")
    shared.submit("models", "model", "--inference -g 1 --port 8000")
    shared.becomes("models", "model", "Running")
    first = pods(shared, "models", "model")
    shared.typed("runai update model -p models --replicas 3")
    shared.until(lambda: len(pods(shared, "models", "model")) == 3, "it has three replicas")
    assert first < pods(shared, "models", "model")
    answer = shared.typist.type("runai inference update model -p models -e NEW=1")
    assert "pods that run keep the former environmentVariables until their next start" in answer.err
    shared.typed("runai inference update model -p models --replicas 1")
    shared.until(lambda: pods(shared, "models", "model") == first, "the first replica is left")
    assert shared.typist.type("runai exec model -p models -- printenv NEW").code != 0
    shared.typed("runai suspend model -p models")
    shared.typed("runai resume model -p models")
    shared.until(lambda: pods(shared, "models", "model") - first, "it was started again")
    assert shared.says("models", "model", "printenv NEW") == "1\n"


def test_an_elastic_job_starts_with_one_pod_and_grows(shared: SharedPlatform) -> None:
    """F-50: by the flag of `runai submit`."""
    shared.project("stretch", "-g 16")
    shared.submit("stretch", "large", "-g 8")
    shared.submit("stretch", "other", "-g 7")
    shared.until(lambda: shared.running("stretch") == ["large", "other"], "15 of 16 GPUs are taken")
    shared.submit("stretch", "job", "-g 1 --elastic --parallelism 4")
    shared.becomes("stretch", "job", "Running")
    first = pods(shared, "stretch", "job")
    assert len(first) == 1
    shared.typed("runai delete other -p stretch")
    shared.until(lambda: len(pods(shared, "stretch", "job")) == 4, "it has grown to four pods")
    assert first < pods(shared, "stretch", "job")
