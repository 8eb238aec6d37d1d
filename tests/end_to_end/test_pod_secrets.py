"""Secrets of real pods: in their environment and files, in memory, and in no file of the platform."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from fairpool.agent.exec_client import ExecSession
from fairpool.agent.pod_secrets import FoundSecrets, SecretFiles, SecretLookup, SecretsRefused, SecretsUnavailable
from fairpool.model.ids import PodId, WorkloadId
from fairpool.model.observation import OrderStatus
from fairpool.model.problem import Problem
from fairpool.model.secret import CredentialKind, Secret, UserLogin
from fairpool.model.spec import SecretVariable, Volume
from tests.local_machine import TOKEN, Machine, a_machine

pytestmark = pytest.mark.slow

VALUE = "pa55-In-Memory-only"
TOKENS = Secret("tokens", CredentialKind.GENERIC, {"hf": VALUE.encode(), "bin": bytes(range(256)), ".rc": b"a\n"})
FROM_SECRET = (SecretVariable(name="TOKEN", credential="tokens", key="hf"),)
AS_FILES = (Volume(target="/secrets/tokens", secret="tokens", read_only=True),)


class Control:
    """A control plane that knows these secrets, or does not answer."""

    def __init__(self, *secrets: Secret) -> None:
        self.known = {each.name: each for each in secrets}
        self.registries: Mapping[str, Secret] = {}
        self.is_away = False
        self.failure: SecretsUnavailable | None = None
        self.asked = 0

    def secrets(self, workload: WorkloadId, names: Sequence[str], registry: str) -> FoundSecrets:
        self.asked += 1
        if self.is_away:
            raise SecretsUnavailable("the control plane does not answer")
        if self.failure is not None:
            raise self.failure
        missing = [
            Problem("c", f"there is no credential {name}", "create it") for name in names if name not in self.known
        ]
        found = {name: self.known[name] for name in names if name in self.known}
        return FoundSecrets(found, tuple(missing), self.registries.get(registry))


@pytest.fixture
def control() -> Control:
    return Control(TOKENS)


@pytest.fixture
def machine(tmp_path: Path, control: Control) -> Iterator[Machine]:
    with a_machine(tmp_path / "data") as machine:
        machine.engine.supervisor.secrets.source = control
        yield machine


def files_with(value: str, root: Path) -> list[Path]:
    found = []
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and value.encode() in path.read_bytes():
            found.append(path)
    return found


def kept_in_memory(machine: Machine, pod: PodId) -> Path:
    launch = json.loads((machine.folder(pod) / "order.json").read_bytes().splitlines()[0])["launch"]
    return Path(launch["secrets"]["directory"])


def answer(machine: Machine, pod: PodId, *command: str) -> str:
    session = machine.engine.supervisor.execute(pod, command)
    if not isinstance(session, ExecSession):
        return ""
    with closing(session), os.fdopen(os.dup(session.stdout), "rb") as output:
        return output.read().decode()


def test_a_variable_and_files_reach_the_pod_and_no_file_of_the_platform(machine: Machine) -> None:
    script = """
        test "$TOKEN" = "$(cat /secrets/tokens/hf)" && stat -c '%a %u' /secrets/tokens /secrets/tokens/hf
        id -u; cksum < /secrets/tokens/bin; ls -A /secrets/tokens; touch /secrets/tokens/x
        df --output=fstype /secrets/tokens
    """
    pod = machine.up("a", "sh", "-c", f"{script}; sleep 600", secrets=FROM_SECRET, volumes=AS_FILES)
    machine.until(lambda: "tmpfs" in machine.log(pod), "it has looked at its files")
    lines = machine.log(pod).splitlines()
    user = lines[2]
    assert lines[:2] == [f"500 {user}", f"400 {user}"], "its own user alone can read them"
    assert "256" in lines[3].split()
    assert lines[4:7] == [".rc", "bin", "hf"]
    assert "Read-only file system" in lines[7] or "Permission denied" in lines[7]
    assert not files_with(VALUE, machine.root)
    assert kept_in_memory(machine, pod).parent.stat().st_mode & 0o777 == 0o700
    machine.stop(pod, grace_s=0)
    machine.until_exited(pod)
    assert not kept_in_memory(machine, pod).exists(), "gone with the pod"


@pytest.mark.parametrize(
    ("value", "variable"),
    [(b"abc\n", "3"), (b"abc\r\n", "3"), (b"abc\n\n", "4"), (b"abc\r", "4"), (b"\n", "0")],
)
def test_one_line_break_at_the_end_is_left_out_of_a_variable_and_not_of_a_file(
    machine: Machine, control: Control, value: bytes, variable: str
) -> None:
    control.known["tokens"] = Secret("tokens", CredentialKind.GENERIC, {"hf": value})
    script = 'printf %s "$TOKEN" | wc -c; wc -c < /secrets/tokens/hf'
    pod = machine.up("a", "sh", "-c", script, secrets=FROM_SECRET, volumes=AS_FILES)
    machine.until_exited(pod)
    assert machine.log(pod).split() == [variable, str(len(value))]


def test_neither_shim_nor_server_shows_the_value_in_proc(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "600", secrets=FROM_SECRET)
    inside = set(machine.numbers(pod).values())
    assert any(VALUE.encode() in Path(f"/proc/{pid}/environ").read_bytes() for pid in inside), "the pod itself has it"
    for pid in (machine.shim_pid(pod), machine.engine.supervisor.fork_server_pid, os.getpid()):
        for name in ("environ", "cmdline"):
            assert VALUE.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_a_command_in_the_pod_has_the_variable_also_after_its_shim_was_replaced(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "600", secrets=FROM_SECRET, volumes=AS_FILES)
    assert answer(machine, pod, "printenv", "TOKEN") == f"{VALUE}\n"
    os.kill(machine.shim_pid(pod), signal.SIGKILL)
    machine.until(
        lambda: machine.see(pod).state and (machine.folder(pod) / "shim.1").is_symlink(), "another shim is there"
    )
    machine.until(lambda: answer(machine, pod, "cat", "/secrets/tokens/hf") == VALUE, "commands work again")
    assert answer(machine, pod, "printenv", "TOKEN") == f"{VALUE}\n"


def test_a_pod_of_another_project_finds_nothing(machine: Machine, control: Control) -> None:
    pod = machine.up("a", "sleep", "600", secrets=FROM_SECRET, volumes=AS_FILES)
    place = kept_in_memory(machine, pod)
    spy = machine.start(
        machine.order(
            "spy",
            "sh",
            "-c",
            f"ls -R {place.parent} /dev/shm /run; cat {place}/*/* /proc/*/environ",
            project="team-b",
            devices=(1,),
        )
    )
    machine.until_exited(spy)
    assert VALUE not in machine.log(spy)
    assert place.name not in machine.log(spy).replace(f"'{place.parent}'", "").replace(f"{place}/*/*", "")


def test_nothing_overrides_the_identity_of_a_pod(machine: Machine) -> None:
    named = (*FROM_SECRET, SecretVariable(name="JOB_NAME", credential="tokens", key="hf"))
    order = machine.order("a", "sh", "-c", 'echo "$JOB_NAME $TOKEN"', secrets=named)
    machine.until_exited(machine.start(order))
    assert machine.log(order.pod) == f"a {VALUE}\n"


def test_a_credential_that_was_deleted_makes_the_pod_wait_and_it_starts_when_it_is_back(
    machine: Machine, control: Control
) -> None:
    del control.known["tokens"]
    order = machine.order("a", "true", secrets=FROM_SECRET)
    (said,) = machine.engine.carry_out([order], TOKEN)
    assert (said.status, said.message) == (
        OrderStatus.LATER,
        "CreateContainerConfigError: there is no credential tokens: create it",
    )
    control.known["tokens"] = TOKENS
    assert machine.until_exited(machine.start(order)).exit_code == 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"other": b"x"}, "has no key hf any more (it has: other)"),
        ({"hf": b"a\0b"}, "contains zero bytes: mount it as a file instead"),
        ({"hf": b"x" * 140_000}, "is longer than 131071 bytes: mount it as a file instead"),
    ],
)
def test_a_value_that_no_variable_can_have_is_said(
    machine: Machine, control: Control, data: dict[str, bytes], words: str
) -> None:
    control.known["tokens"] = Secret("tokens", CredentialKind.GENERIC, data)
    (said,) = machine.engine.carry_out([machine.order("a", "true", secrets=FROM_SECRET)], TOKEN)
    assert said.status is OrderStatus.LATER
    assert words in said.message


def test_a_pod_restarts_while_the_control_plane_is_away_and_a_new_workload_waits(
    machine: Machine, control: Control
) -> None:
    assert machine.run("a", "true", secrets=FROM_SECRET).exit_code == 0
    control.is_away = True
    assert machine.run("a", "true", incarnation=1, secrets=FROM_SECRET).exit_code == 0
    (said,) = machine.engine.carry_out([machine.order("b", "true", secrets=FROM_SECRET)], TOKEN)
    assert (said.status, said.message) == (
        OrderStatus.LATER,
        "it cannot be prepared: the control plane does not answer",
    )
    machine.reopen().supervisor.secrets.source = control
    (said,) = machine.engine.carry_out([machine.order("a", "true", incarnation=2, secrets=FROM_SECRET)], TOKEN)
    assert said.status is OrderStatus.LATER, "what was in the memory of the server ended with it"


def test_what_a_killed_server_handed_over_is_found_by_the_next_or_removed(machine: Machine, control: Control) -> None:
    pod = machine.up("a", "sleep", "600", secrets=FROM_SECRET)
    place = kept_in_memory(machine, pod)
    stray = place.with_name("nonesuch-0-0")
    stray.mkdir()
    machine.reopen().supervisor.secrets.source = control
    assert place.exists()
    assert not stray.exists()
    machine.stop(pod, grace_s=0)
    machine.until_exited(pod)
    assert not place.exists()


def test_what_was_handed_over_is_gone_with_a_pod_that_ends_while_there_is_no_server(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SecretFiles, "remove", lambda _files, _pod: None)  # as if there were none
    pod = machine.up("a", "sleep", "600", secrets=FROM_SECRET, volumes=AS_FILES)
    place = kept_in_memory(machine, pod)
    assert (place / "environment.json").exists()
    os.kill(machine.shim_pid(pod), signal.SIGTERM)
    machine.until_exited(pod)
    assert not place.exists()


def test_a_directory_of_another_user_under_the_name_of_ours_keeps_no_pod_waiting(tmp_path: Path) -> None:
    def place_of(files: SecretFiles) -> Path:
        files.write(PodId("a-0-0"), {"TOKEN": VALUE}, (), None)
        return Path(files.directory(PodId("a-0-0"))).parent

    name, pods = f"taken-{os.getpid()}", tmp_path
    first = SecretFiles(name, pods)
    taken = place_of(first)
    first.remove(PodId("a-0-0"))
    assert taken.is_dir(), "kept while the server runs"
    first.close()
    assert not taken.exists()
    taken.mkdir(0o777)
    taken.chmod(0o777)
    try:
        second = SecretFiles(name, pods)
        other = place_of(second)
        assert (other != taken, other.stat().st_mode & 0o777, list(taken.iterdir())) == (True, 0o700, [])
        assert Path(SecretFiles(name, pods).directory(PodId("a-0-0"))).parent == other, "the next server finds it"
        second.remove(PodId("a-0-0"))
        second.close()
        assert not other.exists()
    finally:
        taken.rmdir()


def test_the_login_of_a_registry_is_looked_up_by_host_or_by_name(machine: Machine) -> None:
    hub = Secret("hub", CredentialKind.REGISTRY, {"url": b"reg:5000", "user": b"u", "password": b"p"})
    control = Control(hub)
    control.registries = {"reg:5000": hub}
    lookup = SecretLookup(control)
    assert lookup.registry_login(machine.order("a", "true"), "reg:5000") == UserLogin("u", "p")
    assert lookup.registry_login(machine.order("a", "true"), "other") is None
    assert lookup.registry_login(machine.order("a", "true", image_credential="hub"), "other") == UserLogin("u", "p")
    control.is_away = True
    assert lookup.registry_login(machine.order("a", "true"), "reg:5000") == UserLogin("u", "p")
    with pytest.raises(SecretsUnavailable):
        lookup.registry_login(machine.order("b", "true"), "reg:5000")


def test_what_was_deleted_or_revoked_does_not_come_back_while_the_control_plane_is_away(machine: Machine) -> None:
    hub = Secret("hub", CredentialKind.REGISTRY, {"url": b"reg:5000", "user": b"u", "password": b"p"})
    control = Control(TOKENS, hub)
    control.registries = {"reg:5000": hub}
    lookup = SecretLookup(control)
    one, pulled = machine.order("a", "true", secrets=FROM_SECRET), machine.order("a", "true")
    named = machine.order("c", "true", image_credential="hub")
    for order in (one, named):
        lookup.of(order)
    lookup.registry_login(pulled, "reg:5000")
    del control.known["tokens"]
    control.registries = {}
    with pytest.raises(SecretsUnavailable):
        lookup.of(one)
    assert lookup.registry_login(pulled, "reg:5000") is None
    control.failure = SecretsRefused("the token is not accepted")
    with pytest.raises(SecretsRefused):
        lookup.registry_login(named, "reg:5000")
    control.failure = SecretsUnavailable("the control plane does not answer")
    for order in (one, named):
        with pytest.raises(SecretsUnavailable):
            lookup.of(order)
    with pytest.raises(SecretsUnavailable):
        lookup.registry_login(pulled, "reg:5000")


def test_a_secret_is_not_in_its_own_text() -> None:
    shown = f"{TOKENS} {TOKENS!r} {UserLogin('u', VALUE)!r}"
    assert VALUE not in shown
