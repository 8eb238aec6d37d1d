"""What a pod may see and mount, and as whom it runs: decided without starting anything."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fairpool.agent import isolation, mount_source, pod_init, process_attributes, project_users
from fairpool.agent.bounded_call import BoundedCalls, StillRunning
from fairpool.agent.cgroup import PROCESSES_MAX, Limiter
from fairpool.agent.environment import PodPaths
from fairpool.agent.file_tree import remove_tree
from fairpool.agent.images import Image, machine_python
from fairpool.agent.isolation import Isolation, PodUser, find_isolation, volume_rule
from fairpool.agent.job_reports import read_reports
from fairpool.agent.launch import MachineFeatures, plan_launch
from fairpool.agent.log_segments import LogWriter, times
from fairpool.agent.mount_source import SourceRefused, open_source, permits
from fairpool.agent.order_file import StoredOrder
from fairpool.agent.project_users import FIRST_UID, ProjectUsers, chown_tree
from fairpool.agent.root_filesystem import HOME
from fairpool.agent.state_directory import StateDirectory, make_pod_directories
from fairpool.agent.support import install_support
from fairpool.agent.uploads import Uploads
from fairpool.model.ids import PodId, QueueId
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import Program, Volume
from tests.contracts.harness import start_order

IMAGE = Image(name="python", command=("python3",))


@pytest.fixture
def data(tmp_path: Path) -> StateDirectory:
    data = StateDirectory(tmp_path / "data directory" / "machine")
    data.prepare()
    return data


@pytest.fixture
def ground(data: StateDirectory) -> Isolation:
    return find_isolation(data.root, [data.root.parent], counts_processes=True)


def order(**program: object) -> StartOrder:
    plain = start_order()
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    return StartOrder(**{**fields, "program": Program(image="python", **program)})  # type: ignore[arg-type]


def launched(
    data: StateDirectory, ground: Isolation, asked: StartOrder, user: PodUser | None = None
) -> dict[str, object]:
    launch = tried(data, ground, asked, user)
    assert isinstance(launch, dict), launch
    return launch


def tried(
    data: StateDirectory,
    ground: Isolation,
    asked: StartOrder,
    user: PodUser | None = None,
    *,
    is_isolating: bool = True,
) -> dict[str, object] | Problem:
    features = MachineFeatures(
        unavailable={} if is_isolating else {"isolation": "not permitted"},
        limiter=Limiter("", "", 0, "none"),
        claims=data.claims,
        uploads=Uploads(data.uploads),
        isolation=ground,
    )
    paths = data.paths(asked)
    return plan_launch(
        asked,
        IMAGE,
        [],
        pod_uuid="a uuid",
        paths=paths,
        features=features,
        is_simulated=True,
        rendezvous=None,
        user=user,
    )


# --- what may be mounted


def rule(ground: Isolation, **fields: object) -> dict[str, object]:
    return {**volume_rule(ground, None, os.getuid(), ("/",)), "homes": [], "act_as": None, **fields}


@pytest.mark.parametrize("path", ["", "machine", "machine/pods", "machine/installation", ".."])
def test_nothing_of_the_platform_is_mounted_nor_what_contains_it(
    data: StateDirectory, ground: Isolation, path: str
) -> None:
    source = os.path.normpath(data.root.parent / path)
    with pytest.raises(SourceRefused) as refusal:
        open_source(source, rule(ground))
    assert refusal.value.code == "volume.platform"
    assert source in refusal.value.what
    assert refusal.value.fix


def test_a_link_is_judged_by_what_it_leads_to(data: StateDirectory, ground: Isolation, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data.root)
    with pytest.raises(SourceRefused, match="belongs to Fairpool"):
        open_source(str(tmp_path / "link"), rule(ground))
    with pytest.raises(SourceRefused, match="belongs to Fairpool"):
        open_source(str(tmp_path / "link" / "pods"), rule(ground))


def test_what_was_judged_is_what_is_bound(data: StateDirectory, ground: Isolation, tmp_path: Path) -> None:
    """A link that is changed afterwards changes nothing: the descriptor is what gets mounted."""
    harmless = tmp_path / "harmless"
    harmless.mkdir()
    link = tmp_path / "link"
    link.symlink_to(harmless)
    fd = open_source(str(link), rule(ground))
    link.unlink()
    link.symlink_to(data.root)
    assert os.readlink(f"/proc/self/fd/{fd}") == str(harmless)
    os.close(fd)


@pytest.mark.parametrize("source", ["/", "/proc", "/proc/self", "/sys", "/sys/kernel", "/dev", "/dev/shm", "/run"])
def test_nothing_of_the_machine_itself_is_mounted(ground: Isolation, source: str) -> None:
    with pytest.raises(SourceRefused) as refusal:
        open_source(source, rule(ground, protected=[]))
    assert refusal.value.code == "volume.machine"


def test_only_folders_and_files_are_mounted(ground: Isolation, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceRefused, match="neither a directory nor a regular file"):
        open_source(str(tmp_path / "pipe"), rule(ground))


def test_a_home_is_its_owners_alone(ground: Isolation, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for home in (own, other):
        (home / "work").mkdir(parents=True)
    homes = {"homes": [str(own), str(other)], "home": str(own), "protected": []}
    os.close(open_source(str(own / "work"), rule(ground, **homes)))
    os.close(open_source(str(own), rule(ground, **homes)))
    for source in (other, other / "work", tmp_path):
        with pytest.raises(SourceRefused) as refusal:
            open_source(str(source), rule(ground, **homes))
        assert refusal.value.code == "volume.home"
    with pytest.raises(SourceRefused):
        open_source(str(own / "work"), rule(ground, **{**homes, "home": ""}))


@pytest.mark.parametrize(
    ("mode", "uid", "gids", "may"),
    [
        pytest.param(0o700, 7, [], True, id="its owner"),
        pytest.param(0o077, 7, [], False, id="its owner has less than others"),
        pytest.param(0o750, 8, [9], True, id="its group"),
        pytest.param(0o705, 8, [9], False, id="its group has less than others"),
        pytest.param(0o705, 8, [], True, id="others"),
        pytest.param(0o750, None, [], False, id="no user in particular"),
        pytest.param(0o755, None, [], True, id="all users"),
        pytest.param(0o000, 0, [], True, id="root"),
    ],
)
def test_who_may_open_what(mode: int, uid: int | None, gids: list[int], may: bool) -> None:
    about = os.stat_result((stat.S_IFDIR | mode, 1, 1, 1, 7, 9, 0, 0, 0, 0))
    assert permits(about, mount_source.READ | mount_source.SEARCH, uid, gids) is may


def test_what_the_submitter_could_not_open_is_not_mounted(
    data: StateDirectory, ground: Isolation, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    volumes = (Volume(source=str(closed), target="/data"),)
    refused = tried(data, ground, order(volumes=volumes))
    assert isinstance(refused, Problem)
    assert (refused.code, str(closed) in refused.what) == ("volume.owner", True)
    launch = launched(data, ground, order(volumes=volumes, submitter_uid=os.getuid()))
    assert launch["mounts"] == [{"source": str(closed), "target": "/data", "mode": "rw", "is_judged": True}]


def test_who_is_not_known_mounts_nothing_that_is_closed_to_others(ground: Isolation, tmp_path: Path) -> None:
    """Of what belongs to another user: here a folder of the system's, as an ordinary server would see it."""
    others = rule(ground, uid=65_000, gids=[])
    (closed := tmp_path / "closed").mkdir(mode=0o750)
    with pytest.raises(SourceRefused, match="not readable for user 65000"):
        open_source(str(closed), others)


def test_shared_temporary_files_are_not_mounted_for_unknown_submitters(ground: Isolation, tmp_path: Path) -> None:
    about = os.stat_result((stat.S_IFDIR | 0o1777, 1, 1, 1, os.getuid() + 1, 9, 0, 0, 0, 0))
    with pytest.raises(SourceRefused, match="temporary files of all users"):
        mount_source._refuse_what_is_ours(about, "/tmp")


@pytest.mark.parametrize("target", ["/proc", "/proc/x", "/dev/shm", "/sys", "/run/fairpool", "/", "relative"])
def test_a_volume_covers_nothing_that_every_pod_needs(
    data: StateDirectory, ground: Isolation, tmp_path: Path, target: str
) -> None:
    (tmp_path / "set").mkdir()
    volume = Volume(source=str(tmp_path / "set"), target=target)
    refused = tried(data, ground, order(volumes=(volume,), submitter_uid=os.getuid()))
    assert isinstance(refused, Problem)
    assert refused.code == "volume.target"


# --- Python


def test_a_pods_python_is_the_machines_and_what_it_installs_is_its_own(data: StateDirectory, ground: Isolation) -> None:
    assert ".venv" not in machine_python()
    env = launched(data, ground, order())["env"]
    assert isinstance(env, dict)
    assert (env["HOME"], env["PYTHONUSERBASE"], env["PIP_USER"]) == (HOME, f"{HOME}/.local", "1")
    assert not [folder for folder in env["PATH"].split(":") if folder.startswith(f"{sys.prefix}/")]


def test_a_job_can_bring_its_own_environment(data: StateDirectory, ground: Isolation, tmp_path: Path) -> None:
    environment, interpreter = tmp_path / "env", tmp_path / "python"
    for folder in (environment / "bin", interpreter / "bin"):
        folder.mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(interpreter / "bin" / "python3")
    (environment / "pyvenv.cfg").write_text(f"home = {interpreter}/bin\nversion = 3.11\n")
    launch = launched(data, ground, order(python_env=str(environment), submitter_uid=os.getuid()))
    env = launch["env"]
    assert isinstance(env, dict)
    assert env["VIRTUAL_ENV"] == str(environment)
    assert f"{environment}/bin" in env["PATH"].split(":")[:2]
    assert "PIP_USER" not in env
    assert launch["mounts"] == [
        {"source": str(place), "target": str(place), "mode": "ro", "is_judged": True}
        for place in (environment, interpreter)
    ]


def test_an_environment_without_python_is_refused(data: StateDirectory, ground: Isolation, tmp_path: Path) -> None:
    for path in (str(tmp_path), "/no/such/env", "relative"):
        refused = tried(data, ground, order(python_env=path, submitter_uid=os.getuid()))
        assert isinstance(refused, Problem)
        assert (refused.code, "has no bin/python" in refused.what) == ("python_env.missing", True)


def test_an_environment_in_the_platforms_folder_is_refused(data: StateDirectory, ground: Isolation) -> None:
    (data.root / "bin").mkdir()
    (data.root / "bin" / "python").touch()
    refused = tried(data, ground, order(python_env=str(data.root), submitter_uid=os.getuid()))
    assert isinstance(refused, Problem)
    assert refused.code == "volume.platform"


def test_support_files_are_readable_for_pods_whatever_the_servers_mask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        install_support(tmp_path / "support")
    finally:
        os.umask(before)
    for path in (tmp_path / "support").rglob("*"):
        wanted = 0o755 if path.is_dir() or path.parent.name in ("bin", "simulated") else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


# --- users


def test_each_project_has_a_user_of_its_own_for_good(tmp_path: Path) -> None:
    users = ProjectUsers(tmp_path)
    first, second = users.user_of(QueueId("a")), users.user_of(QueueId("b"))
    assert (first.uid, second.uid) == (FIRST_UID, FIRST_UID + 1)
    assert ProjectUsers(tmp_path).user_of(QueueId("b")) == second


@pytest.mark.parametrize("content", ["{", '{"projects": {"a": 0}}', '{"first": 0}', '{"projects": {"a": -1}}'])
def test_a_damaged_table_of_users_makes_no_project_root(tmp_path: Path, content: str) -> None:
    (tmp_path / "users.json").write_text(content)
    with pytest.raises(OSError, match="restore it from a backup"):
        ProjectUsers(tmp_path).user_of(QueueId("a"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands files over")
def test_what_earlier_versions_made_is_handed_over_but_not_what_it_points_to(tmp_path: Path) -> None:
    claim, elsewhere = tmp_path / "claim", tmp_path / "elsewhere"
    (claim / "deep").mkdir(parents=True)
    (claim / "deep" / "file").touch()
    elsewhere.touch()
    (claim / "link").symlink_to(elsewhere)
    chown_tree(str(claim), PodUser(12_345, 12_346))
    handed = [claim, claim / "deep", claim / "deep" / "file", claim / "link"]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in handed} == {(12_345, 12_346)}
    assert elsewhere.stat().st_uid == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands files over")
def test_folders_however_deep_change_their_owner(tmp_path: Path) -> None:
    (claim := tmp_path / "claim").mkdir()
    here = os.open(claim, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    chown_tree(str(claim), PodUser(12_345, 12_345))
    assert (os.fstat(here).st_uid, claim.stat().st_uid) == (12_345, 12_345)
    os.close(here)
    remove_tree(str(claim))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands files over")
def test_a_lost_table_of_users_is_found_again_by_whose_the_claims_are(tmp_path: Path) -> None:
    users = ProjectUsers(tmp_path)
    for project in ("a", "b"):
        claim = tmp_path / "claims" / project / "data"
        claim.mkdir(parents=True)
        os.chown(claim, users.user_of(QueueId(project)).uid, 0)
    (run := tmp_path / "checkpoints" / "run").mkdir(parents=True)
    os.chown(run, users.user_of(QueueId("c")).uid, 0)
    (tmp_path / "users.json").unlink()
    again = ProjectUsers(tmp_path)
    assert again.user_of(QueueId("new")).uid == FIRST_UID + 3, "nothing of an earlier project"
    assert again.user_of(QueueId("b")).uid == FIRST_UID + 1
    assert again.user_of(QueueId("a")).uid == FIRST_UID


def test_there_are_only_so_many_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_users, "USERS_MAX", 1)
    users = ProjectUsers(tmp_path)
    users.user_of(QueueId("a"))
    with pytest.raises(OSError, match="no user left for project b"):
        users.user_of(QueueId("b"))
    assert users.user_of(QueueId("a")).uid == FIRST_UID


def test_a_call_that_hangs_is_not_waited_for_and_asked_about_again() -> None:
    calls: BoundedCalls[int] = BoundedCalls(timeout_s=0.01)
    go_on = threading.Event()

    def slow() -> int:
        assert go_on.wait(60)
        return 7

    with pytest.raises(StillRunning, match="does not answer"):
        calls.run("a", slow, "it does not answer")
    with pytest.raises(StillRunning):
        calls.run("a", slow, "it does not answer")
    go_on.set()
    for _ in range(6000):
        with suppress(StillRunning):
            assert calls.run("a", slow, "it does not answer") == 7
            break
        time.sleep(0.01)

    def broken() -> int:
        raise PermissionError(13, "no")

    with pytest.raises(PermissionError):
        BoundedCalls[int](timeout_s=60).run("b", broken, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands files over")
def test_a_pods_places_are_its_users(data: StateDirectory, ground: Isolation) -> None:
    asked = order()
    paths = data.paths(asked)
    launch = launched(data, ground, asked, PodUser(12_345, 12_345))
    Path(paths.checkpoints).mkdir(parents=True)
    (Path(paths.checkpoints) / "old").touch()
    make_pod_directories(StoredOrder(order=asked, launch=launch), paths)
    for place in (paths.home, paths.checkpoints, f"{paths.checkpoints}/old"):
        assert os.stat(place).st_uid == 12_345


def test_the_first_process_asks_again_to_end_with_its_shim_once_it_is_another_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel forgets it when a process changes its user."""
    steps: list[str] = []

    class Over(BaseException):
        pass

    def over(code: int) -> None:
        raise Over

    def started(line: socket.socket) -> int:
        steps.append("start")
        raise OSError

    monkeypatch.setattr(process_attributes, "end_with_parent", lambda: steps.append("end with parent"))
    monkeypatch.setattr(pod_init, "make_root_filesystem", lambda view, mounts: None)
    monkeypatch.setattr(pod_init, "become_pod_user", lambda view: steps.append("take on"))
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.setattr(os, "_exit", over)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(Over):
        pod_init.run_init({"view": {}, "mounts": []}, None, ours, -1, started)
    assert steps == ["end with parent", "take on", "end with parent", "start"]


# --- the view


def test_the_platform_homes_and_sockets_are_hidden_and_the_interpreter_is_kept(ground: Isolation) -> None:
    assert {"/home", "/run"} <= set(ground.hidden)
    assert not any(isolation.is_within(place, isolation.TEMPORARY) for place in ground.hidden), "those are its own"
    interpreter = machine_python()
    is_hidden = isolation.is_within(interpreter, (*ground.hidden, *isolation.TEMPORARY))
    assert not is_hidden or isolation.is_within(interpreter, ground.kept)


def test_a_home_that_is_the_system_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_home", lambda uid: "/")
    assert "/" not in find_isolation(tmp_path, [], counts_processes=True).hidden


def test_how_many_processes_a_pod_may_have_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(isolation.PROCESSES_VARIABLE, "123")
    assert find_isolation(tmp_path, [], counts_processes=True).processes_max == 123
    monkeypatch.setenv(isolation.PROCESSES_VARIABLE, "many")
    assert 0 < find_isolation(tmp_path, [], counts_processes=True).processes_max <= PROCESSES_MAX


def test_a_launch_for_a_pod_that_is_not_isolated_has_no_view(data: StateDirectory, ground: Isolation) -> None:
    launch = tried(data, ground, order(), is_isolating=False)
    assert isinstance(launch, dict)
    assert (launch["view"], launch["cwd"]) == (None, data.paths(order()).home)


# --- what a pod leaves behind


def test_whatever_a_pod_reports_is_numbers_and_short_texts(data: StateDirectory) -> None:
    home = Path(data.paths(order()).home)
    home.mkdir()
    said = {
        "metrics": {"a": 1, "b": 0.5, "c": "x", "d": [1], "e": True, "n" * 5000: 2, **{str(n): n for n in range(999)}},
        "parameters": {"p": "y" * 5000, "q": 1, "r": {"deep": []}},
        "more": ["of", "it"],
    }
    (home / ".fairpool-report.json").write_text(json.dumps(said))
    found = read_reports(data, start_order().pod)
    assert (found["metrics"]["a"], found["metrics"]["b"], len(found["metrics"])) == (1, 0.5, 256)
    assert set(found["metrics"]).isdisjoint("cde")
    assert {name: len(value) for name, value in found["parameters"].items()} == {"p": 1024}
    assert set(found) == {"metrics", "parameters"}


@pytest.mark.parametrize("name", ["log.0", "times.0"])
def test_a_log_that_is_a_pipe_keeps_no_reader(data: StateDirectory, name: str) -> None:
    from fairpool.agent.pod_log import read_log

    folder = data.pod_directory(PodId("a"))
    folder.mkdir()
    (folder / "log.0").write_bytes(b"said\n")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    chunk = read_log(folder, is_over=True, since_ms=0, timestamps=True, tail_lines=5)
    assert chunk.is_complete or name == "times.0"


def test_a_byte_at_a_time_fills_no_disk_with_times(tmp_path: Path) -> None:
    writer = LogWriter(str(tmp_path), 1 << 20, 3)
    for number in range(60_000):
        writer.write(b"x", 1_000_000 + number * 20)
    writer.close()
    assert 16_384 < len(times(str(tmp_path))) < 45_000
    assert (tmp_path / "log.0").stat().st_size == 60_000


def test_folders_however_deep_are_removed(tmp_path: Path) -> None:
    before = os.getcwd()
    folder = tmp_path / "deep"
    folder.mkdir()
    os.chdir(folder)
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(before)
    (folder / "link").symlink_to("/etc")
    (folder / "closed").mkdir(mode=0o000)
    remove_tree(str(folder))
    assert list(tmp_path.iterdir()) == []
    assert Path("/etc").is_dir()


def test_places_of_a_pod_are_its_home(data: StateDirectory) -> None:
    paths = data.paths(order())
    assert isinstance(paths, PodPaths)
    assert paths.reporter == f"file:{paths.home}/.fairpool-report.json"
