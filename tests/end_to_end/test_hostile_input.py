"""Invalid and hostile input, sent to a real server over a socket: it is refused or harmless, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from fairpool.api import workload_spec as work
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

TRAININGS = "/api/v1/workloads/trainings"
SPEC = {"image": "python", "command": "python", "args": "-c pass", "compute": {"gpu": "0.5"}}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("hostile") / "data")
    try:
        running.up()
        assert running.client.projects()
        yield running
    finally:
        running.clean_up()


@pytest.fixture
def http(platform: Running) -> Iterator[httpx2.Client]:
    """A client other than ours, and whether it is still the same server afterwards."""
    pid, address, token = platform.pid, platform.status["address"], platform.client.token
    with httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S) as http:
        yield http
        assert http.get("/api/v1/workloads").status_code == 200
    assert platform.pid == pid
    assert platform.status["loop"]["is_alive"]
    assert not platform.status["loop"]["error"]
    assert "Traceback" not in platform.data_directory.log.read_text(encoding="utf-8")


def refused_codes(answer: httpx2.Response, status: int) -> list[str]:
    assert answer.status_code == status, answer.text[:2000]
    problems = answer.json()["problems"]
    assert all(each["what"] and each["fix"] for each in problems)
    return [each["code"] for each in problems]


NAMES = [
    "a/b",
    "../../etc/passwd",
    "a'b",
    'a"b',
    "a`id`",
    "$(id)",
    "a\nb",
    "a\x00b",
    "a\x1b[2Jb",
    "ü",
    "名前",
    "A",
    "-a",
    "a" * 64,
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_that_is_none_is_refused(platform: Running, http: httpx2.Client, name: str) -> None:
    for path, body in (
        (TRAININGS, {"name": name, "projectId": "team-a", "spec": SPEC}),
        (TRAININGS, {"name": "fine", "projectId": name, "spec": SPEC}),
        ("/api/v1/org-unit/projects", {"name": name}),
        ("/api/v1/node-pools", {"name": name}),
    ):
        answer = http.post(path, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
        assert answer.status_code in (404, 422), answer.text
        assert answer.json()["problems"]
    assert platform.client.find_workload("team-a", "fine") is None


@pytest.mark.parametrize("gpu", ["-1", "0.3333", "2.5", "1e309", "NaN", "0.0", "999999999999", "١", "1_0", "1; rm"])
def test_gpus_that_cannot_be_are_refused(platform: Running, http: httpx2.Client, gpu: str) -> None:
    answer = http.post(TRAININGS, json={"name": "g", "projectId": "team-a", "spec": {**SPEC, "compute": {"gpu": gpu}}})
    if answer.status_code == 202:  # whatever is taken is an amount that one can ask for
        assert gpu == "0.0"
        platform.client.delete_workload(answer.json()["id"])
    else:
        assert refused_codes(answer, 422)


def test_two_megabytes_are_read_and_one_byte_more_is_not(http: httpx2.Client) -> None:
    most = 2 * 1024 * 1024
    head = {"Content-Type": "application/json"}
    body = json.dumps({"name": "", "projectId": "team-a", "spec": SPEC}).encode()
    full = body.replace(b'"name": ""', b'"name": "' + b"x" * (most - len(body)) + b'"')
    assert len(full) == most
    assert refused_codes(http.post(TRAININGS, content=full, headers=head), 422)
    assert refused_codes(http.post(TRAININGS, content=full + b" ", headers=head), 413) == ["request.too_large"]
    deep = b"[" * 50_000 + b"]" * 50_000
    assert http.post(TRAININGS, content=deep, headers=head).status_code in (400, 422)
    assert refused_codes(http.post(TRAININGS, content=deep * 2, headers=head), 413) == ["request.too_many_values"]


OUTSIDE = [
    "../../../../../../etc/passwd",
    "/etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    ".",
    "..",
    "\x00",
    "a\nb",
    "*",
    "log.0",
]


def test_no_log_leads_out_of_its_folder(platform: Running, http: httpx2.Client) -> None:
    workload = submitted(platform, "mine", args="-c 'print(1)'")
    for where in OUTSIDE:
        path = quote(where, safe="").replace(".", "%2e")  # else our own side would resolve it
        for answer in (
            http.get(f"/api/v1/workloads/{workload}/logs", params={"pod": where}),
            http.get(f"/api/v1/workloads/{path}/logs"),
            http.get(f"/api/v1/workloads/{workload}/pods/{path}"),
        ):
            assert answer.status_code in (404, 405, 422), (where, answer.text)
            assert "root:" not in answer.text
    assert platform.log(workload) == "1\n"


def submitted(platform: Running, name: str, **spec: Any) -> str:
    body = {"name": name, "projectId": "team-a", "spec": {**SPEC, **spec}}
    workload = platform.client.submit(work.SubmitTraining.model_validate(body)).id
    platform.until_phase(workload, "Completed")
    return workload


def test_ten_thousand_lines_of_environment_reach_the_program(platform: Running, http: httpx2.Client) -> None:
    lines = [{"name": f"LINE_{number}", "value": f"{number}"} for number in range(9_998)]
    lines += [{"name": "QUOTED", "value": "'\"$(id)`id`\\"}, {"name": "UNICODE", "value": "zażółć 名前 🙂\ttab\nline"}]
    program = (
        'import os; print(sum(k.startswith("LINE_") for k in os.environ), '
        'ascii(os.environ["QUOTED"]), ascii(os.environ["UNICODE"]))'
    )
    workload = submitted(platform, "environment", args=f"-c '{program}'", environmentVariables=lines)
    said = platform.log(workload)
    quoted, text = (each["value"] for each in lines[-2:])
    assert said == f"9998 {quoted!a} {text!a}\n"


def test_escapes_in_a_log_stay_what_they_were(platform: Running, http: httpx2.Client) -> None:
    """For programs; that a person's terminal is spared is shown with `runai`."""
    evil = b"\x1b]0;owned\x07\x1b[2J\x9b6n \xff\xfe\x00 \r\n"
    octal = "".join(f"\\{byte:03o}" for byte in evil)
    workload = submitted(platform, "escapes", image="ubuntu", command=["printf"], args=[octal])
    answer = http.get(f"/api/v1/workloads/{workload}/logs")
    assert answer.content == evil
    assert answer.headers["content-type"].startswith("text/plain")
