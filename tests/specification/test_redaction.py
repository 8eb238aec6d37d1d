"""What is removed from logs before they are sent to others, and what stays."""

from __future__ import annotations

import pytest

from fairpool.model.redaction import REMOVED, redacted, redacted_document, redacted_log

SECRETS = {
    "fpa_k3J9sd0-fjKD93kd": "token fpa_k3J9sd0-fjKD93kd was refused",
    "fpc_k3J9sd0-fjKD93kd": "joined with fpc_k3J9sd0-fjKD93kd",
    "hunter22": "login password=hunter22 user=ann",
    "hunt er": 'login password="hunt er" user=ann',
    'hunt\\"er': 'login db_password="hunt\\"er" user=ann',
    "s3cr3t-value": "env AWS_SECRET_ACCESS_KEY=s3cr3t-value",
    "abc.def": '{"apiKey": "abc.def", "name": "x"}',
    "dXNlcjpwYXNz": "Authorization: Basic dXNlcjpwYXNz",
    "tok3n-of-mine": "header Bearer tok3n-of-mine!",
    "pw": "clone https://ann:pw@git.example.com/repo.git",
    "k9k9k9": "GET /sign-in?code=k9k9k9&x=1",
    "session-1": "Set-Cookie: session-1; HttpOnly",
    "eyJhbGciOiJIUzI1NiJ9": "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln",
    "value-of-x": "commandLine runai submit a -i b -e X=value-of-x -- python",
}


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_removed(secret: str) -> None:
    said = redacted(SECRETS[secret])
    assert secret not in said
    assert REMOVED in said


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-15T12:00:00.000Z info control MainThread  workload create  name=train id=8d-1 by=ann@example.com",
        "pod train-0-0 ended: exit code 1",
        "GET https://east.example.com/api/v1/workloads?filterBy=name==a 200",
        "the user must change the password first",
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert redacted(line) == line


def test_known_values_are_removed_wherever_they_are() -> None:
    assert redacted("say plain-words twice: plain-words", {"plain-words", ""}) == f"say {REMOVED} twice: {REMOVED}"


def test_a_private_key_over_several_lines_is_removed() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----"
    assert redacted_log(f"before\n{key}\nafter\n") == ["before\n", f"{REMOVED}\n", "after\n"]
    assert redacted_log("-----BEGIN PRIVATE KEY-----\nMIIE") == [REMOVED]


def test_documents_lose_values_by_key_and_by_form() -> None:
    said = {"clientSecret": "x", "tokens": 3, "list": [{"password": "y", "text": "fps_0123456789"}], "name": "a"}
    assert redacted_document(said) == {
        "clientSecret": REMOVED,
        "tokens": 3,
        "list": [{"password": REMOVED, "text": REMOVED}],
        "name": "a",
    }


@pytest.mark.parametrize("piece", ["password", 'token="', "eyJ", "x", "://", "-----BEGIN PRIVATE KEY-----", "-e x="])
def test_a_hostile_line_is_cut_before_it_is_searched(piece: str) -> None:
    """Searching all of it would take hours."""
    assert sum(map(len, redacted_log(piece * (8_000_000 // len(piece))))) < 40_000
