"""Credentials as users type them, the pods that get them, and proof that their values are nowhere else."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.agent import process_table
from tests.end_to_end.shared_platform import SharedPlatform
from tests.end_to_end.typist import Typist
from tests.running_platform import Running, fairpool

pytestmark = pytest.mark.slow

VALUE, ROTATED, PASSWORD = "s3cr3t-Value-4711", "s3cr3t-Rotated-0815", "s3cr3t-Registry-1234"
PROJECT = "team-a"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedPlatform]:
    folder = tmp_path_factory.mktemp("credentials")
    platform = Running(folder / "data", config=folder / "admin" / "config")
    try:
        platform.up("--nodes", "simulated")
        yield SharedPlatform(platform, Typist(str(platform.status["address"]), folder))
    finally:
        platform.clean_up()


@pytest.fixture
def shared(opened: SharedPlatform, tmp_path: Path) -> Iterator[SharedPlatform]:
    (tmp_path / "value").write_text(VALUE)
    (tmp_path / "rotated").write_text(ROTATED)
    opened.project(PROJECT, "--gpu-quota 4")
    yield opened
    opened.tidy()


def leaks(shared: SharedPlatform, *values: str) -> list[str]:
    """Where a value is, other than in pods: files of the platform, /proc of its processes."""
    texts = {text for value in values for text in (value, base64.b64encode(value.encode()).decode().rstrip("=")[:-1])}
    found = []
    root = shared.platform.data_directory.root
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and not path.is_socket():
            content = path.read_bytes()
            found += [f"{path}: {text}" for text in texts if text.encode() in content]
    server = int(shared.platform.status["pid"])
    for pid in (server, *process_table.descendants(server)):
        for name in ("cmdline", "environ"):
            try:
                content = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
            is_pod = b"POD_INDEX=" in Path(f"/proc/{pid}/environ").read_bytes()
            found += [f"{pid} {name}: {text}" for text in texts if text.encode() in content and not is_pod]
    return found


@pytest.mark.flag("--secret-volume", "--environment")
def test_a_secret_reaches_its_pod_and_nothing_else(shared: SharedPlatform, tmp_path: Path) -> None:
    """F-225: values as a variable and as files; grepped for in everything that is stored or shown."""
    said = shared.typed(f"runai-adm credential create tokens -p {PROJECT} --from-file hf={tmp_path / 'value'}")
    assert said == f"Credential tokens of project {PROJECT} created successfully.\n"
    flags = "-i ubuntu -e TOKEN=SECRET:tokens,hf --secret-volume name=tokens,path=/secrets"
    quiet = 'sh -c \'test "$TOKEN" = "$(cat /secrets/hf)" && echo same; sleep 1000\''
    shared.typed(f"runai submit s1 -p {PROJECT} {flags} -- {quiet}")
    shared.until(lambda: "same" in shared.typist.type(f"runai logs s1 -p {PROJECT}").out, "the job has compared them")
    assert shared.says(PROJECT, "s1", "printenv TOKEN") == f"{VALUE}\n"
    assert not leaks(shared, VALUE)

    shown = [
        shared.typed(line)
        for line in (
            f"runai describe job s1 -p {PROJECT}",
            f"runai describe job s1 -p {PROJECT} -o json",
            f"runai list jobs -p {PROJECT} -o json",
            "runai list credentials",
            "runai-adm credential get tokens",
            "runai-adm credential list -o json",
            f"runai submit s2 -p {PROJECT} {flags} --dry-run",
        )
    ]
    client = shared.platform.client
    shown += [json.dumps(each) for each in (client.audit(), client.credentials(), client.all_workloads())]
    assert not [text for text in shown if VALUE in text]
    assert all("tokens" in text for text in shown[:2]), "the reference is shown"
    archive = tmp_path / "logs.tar.gz"
    shared.typed(f"runai-adm collect-logs -o {archive}")
    assert VALUE.encode() not in gzip.decompress(archive.read_bytes())


def test_values_are_rotated_and_a_deleted_credential_makes_the_next_pod_wait(
    shared: SharedPlatform, tmp_path: Path
) -> None:
    shared.typed(f"runai-adm credential create tokens -p {PROJECT} --from-file hf={tmp_path / 'value'}")
    waiting = "sh -c 'test -e go || { touch go; exit 3; }; sleep 1000'"
    shared.typed(f"runai submit s1 -p {PROJECT} -g 1 -i ubuntu -e TOKEN=SECRET:tokens,hf -- sleep 1000")
    shared.becomes(PROJECT, "s1", "Running")
    shared.typed(f"runai-adm credential update tokens --from-file hf={tmp_path / 'rotated'}")
    assert shared.says(PROJECT, "s1", "printenv TOKEN") == f"{VALUE}\n", "what runs keeps what it has"
    shared.typed(f"runai suspend s1 -p {PROJECT}")
    shared.becomes(PROJECT, "s1", "Stopped", "Suspended")
    shared.typed("runai-adm credential delete tokens")
    said = shared.typist.refused(f"runai submit s2 -p {PROJECT} -i ubuntu -e A=SECRET:tokens,hf -- {waiting}")
    assert said.startswith(f"project {PROJECT} has no credential tokens: see them with `runai list credentials`")
    shared.typed(f"runai resume s1 -p {PROJECT}")
    words = f"project {PROJECT} has no credential tokens any more"
    shared.until(lambda: words in shared.typed(f"runai describe job s1 -p {PROJECT}"), "it says what it waits for")
    assert "failed" not in shared.status(PROJECT, "s1").lower()
    free = "it holds no GPU until then"
    shared.until(lambda: free in " ".join(shared.typed(f"runai why s1 -p {PROJECT}").split()), "its GPU is free")
    assert shared.jobs(PROJECT)["s1"]["allocatedResources"]["gpu"] == 0
    shared.typed(f"runai-adm credential create tokens -p {PROJECT} --from-file hf={tmp_path / 'rotated'}")
    shared.becomes(PROJECT, "s1", "Running")
    assert shared.says(PROJECT, "s1", "printenv TOKEN") == f"{ROTATED}\n"
    assert not leaks(shared, VALUE, ROTATED)


def test_values_come_from_files_and_stdin_and_never_from_arguments(shared: SharedPlatform, tmp_path: Path) -> None:
    typist = shared.typist
    (tmp_path / "env").write_text(f"# comment\n\nA={VALUE}\nB=x=y\n")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "huge").write_bytes(b"x" * (2 << 20))
    files = f"--from-env-file {tmp_path / 'env'} --from-file {tmp_path / 'binary'}"
    shared.typed(f"runai-adm credential create e -p {PROJECT} {files}")
    registry = "--type docker-registry --url registry.example.com:5000 --user bob"
    shared.typed(f"runai-adm credential create r -p {PROJECT} {registry} --value-file -", stdin=f"{PASSWORD}\n")
    shown = shared.typed("runai-adm credential get r")
    assert "USER: bob\nURL: registry.example.com:5000\n" in shown
    assert PASSWORD not in shown
    listed = {each["meta"]["name"]: each for each in json.loads(shared.typed("runai list credentials -o json"))}
    assert [(key["name"], key["isText"]) for key in listed["e"]["spec"]["secretKeys"]] == [
        ("A", True),
        ("B", True),
        ("binary", False),
    ]
    bad = {
        f"create x --from-file {tmp_path / 'huge'}": "more than 1048576 bytes",
        "create x --from-file /nonesuch": "cannot be read: no such file or directory",
        "create x": "a generic secret needs at least one key",
        "create x --type password --user u": "the password is missing: add --value-file FILE",
        "create x --type access-key --value-file -": "needs --access-key-id",
        f"create 'a/b' --from-file {tmp_path / 'env'}": "is not a valid name of a credential",
        f"create x --from-file 'a/b={tmp_path / 'env'}'": "'a/b' is not a valid key",
        f"create x --type git --from-file {tmp_path / 'env'}": "--from-file does not fit a credential of type git",
        f"create e -p {PROJECT} --from-env-file {tmp_path / 'env'}": "already has a credential e",
        "get rr": "Did you mean r?",
        "delete nonesuch": "there is no credential nonesuch",
    }
    for line, words in bad.items():
        assert words in typist.refused(f"runai-adm credential {line}"), line
    for option in ("--password x", "--from-literal a=b", "--value x"):
        answer = typist.type(f"runai-adm credential create x {option}")
        assert answer.code != 0
    assert "SECRET:NAME,KEY" in typist.refused(f"runai submit s -p {PROJECT} -i ubuntu -e A=SECRET:e -- true")
    assert "it has: A, B, binary" in typist.refused(f"runai submit s -p {PROJECT} -i ubuntu -e A=SECRET:e,zzz -- true")
    assert "is binary" in typist.refused(f"runai submit s -p {PROJECT} -i ubuntu -e A=SECRET:e,binary -- true")
    assert not leaks(shared, VALUE, PASSWORD)


def test_a_credential_is_given_to_all_projects_and_taken_back(shared: SharedPlatform, tmp_path: Path) -> None:
    """The documented lines `runai-adm set secret NAME --cluster-wide` and `remove secret`."""
    shared.project("team-b", "--gpu-quota 1")
    shared.typed(f"runai-adm credential create tokens -p {PROJECT} --from-file hf={tmp_path / 'value'}")
    submit = "runai submit s1 -p team-b -i ubuntu -e A=SECRET:tokens,hf --dry-run -- true"
    assert "project team-b has no credential tokens" in shared.typist.refused(submit)
    assert shared.typed("runai-adm set secret tokens --cluster-wide") == (
        "Credential tokens can be used in all projects.\n"
    )
    shared.typed(submit)
    shared.typed("runai-adm remove secret tokens --cluster-wide")
    assert "project team-b has no credential tokens" in shared.typist.refused(submit)
    assert "needs --cluster-wide" in shared.typist.refused("runai-adm set secret tokens")


def test_a_backup_has_no_value_and_its_key_only_under_a_passphrase(shared: SharedPlatform, tmp_path: Path) -> None:
    shared.typed(f"runai-adm credential create tokens -p {PROJECT} --from-file hf={tmp_path / 'value'}")
    root = shared.platform.data_directory.root
    key = (root / "secret.key").read_text().strip()
    plain, sealed, passphrase = tmp_path / "plain", tmp_path / "sealed", tmp_path / "passphrase"
    passphrase.write_text("correct horse battery\n")
    said = shared.platform.command("backup", str(plain))
    assert "It does not include the key of credentials" in said.stderr
    shared.platform.command("backup", "--passphrase-file", str(passphrase), str(sealed))
    for file in (plain, sealed):
        content = gzip.decompress(file.read_bytes())
        assert not any(text in content for text in (VALUE.encode(), key.encode(), bytes.fromhex(key)))
    elsewhere = tmp_path / "elsewhere"
    said = fairpool("restore", "--data", str(elsewhere), str(sealed))
    assert "Values of credentials are read with no key" in said.stderr
    assert not (elsewhere / "secret.key").exists()
    wrong = tmp_path / "wrong"
    wrong.write_text("another passphrase\n")
    said = fairpool("restore", "--data", str(tmp_path / "third"), "--passphrase-file", str(wrong), str(sealed))
    assert (said.returncode, "the passphrase does not fit the key" in said.stderr) == (1, True)
    said = fairpool("restore", "--data", str(elsewhere), "--passphrase-file", str(passphrase), str(sealed))
    assert said.returncode == 0, said
    assert (elsewhere / "secret.key").read_text().strip() == key
    said = fairpool("restore", "--data", str(elsewhere), "--passphrase-file", str(passphrase), str(plain))
    assert "does not contain the key of credentials" in said.stderr
    short = fairpool("backup", "--data", str(root), "--passphrase-file", "/dev/null", str(tmp_path / "x"))
    assert "must contain 12 to 1024 characters" in short.stderr
