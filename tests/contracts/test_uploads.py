"""Uploading a folder: what is accepted, what is refused, and what becomes of it."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent.state_directory import StateDirectory
from fairpool.agent.unpacking import unpack
from fairpool.agent.uploads import Uploads
from fairpool.control import uploads as control_uploads
from fairpool.control.pod_access import PodAccessError
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds, Upload
from tests.control.control_plane import ControlPlane, codes, control_plane, expect, gone
from tests.control.pod_access_fakes import NoPodAccess

BOUNDS = Bounds(size_bytes=1 << 20, files=100, total_bytes=1 << 30)
UPLOADS = "/api/v1/uploads"


class FakePodAccess(NoPodAccess):
    """Uploads in a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.store = Uploads(root)
        self.data = StateDirectory(root.parent)

    async def begin_upload(self, upload: Upload, total_bytes: int) -> None:
        problem = self.store.begin(upload, total_bytes)
        if problem is not None:
            raise PodAccessError(problem)

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        written = self.store.write(upload_id, offset, piece)
        if isinstance(written, Problem):
            raise PodAccessError(written)
        return written

    async def finish_upload(self, upload_id: str, bounds: Bounds) -> Upload:
        done = self.store.finish(upload_id, bounds)
        if isinstance(done, Problem):
            raise PodAccessError(done)
        return done

    async def claim_upload(self, upload_id: str) -> Upload | None:
        return self.store.claim(upload_id)

    async def uploads(self) -> list[Upload]:
        return self.store.all()

    async def remove_upload(self, upload_id: str) -> None:
        self.store.remove(upload_id)

    async def set_aside_claims(self, project: str, kept_as: str) -> None:
        self.data.set_aside_claims(project, kept_as)

    async def remove_claim(self, project: str, name: str) -> None:
        self.data.discard_claim(project, name)


@pytest.fixture
def pod_access(tmp_path: Path) -> FakePodAccess:
    return FakePodAccess(tmp_path / "uploads")


@pytest.fixture
def control(tmp_path: Path, pod_access: FakePodAccess) -> Iterator[ControlPlane]:
    with control_plane(tmp_path / "data", pod_access=pod_access) as made:
        made.project("team-a")
        made.project("team-b")
        made.researcher("ann", "team-a")
        made.researcher("bob", "team-a", "team-b")
        yield made


def archive(*entries: tuple[str, bytes | None], **changes: Any) -> bytes:
    """A gzipped tar; an entry without content is a folder."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            for field, value in changes.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content or b""))
    return file.getvalue()


def upload(control: ControlPlane, packed: bytes, *, by: str = "ann", project: str = "team-a") -> Any:
    """All of it; the answer to the last call."""
    made = expect(control.call("POST", UPLOADS, {"projectId": project, "archiveBytes": len(packed)}, by=by), 201)
    headers = {"Authorization": f"Bearer {control.tokens[by]}"}
    half = len(packed) // 2
    for offset in (0, half):
        piece = packed[offset:] if offset else packed[:half]
        answer = control.http.put(f"{UPLOADS}/{made['id']}?offset={offset}", content=piece, headers=headers)
        assert answer.status_code == 200, answer.text
    return made["id"], control.call("POST", f"{UPLOADS}/{made['id']}/complete", by=by)


def submit(
    control: ControlPlane, upload_id: str, *, by: str = "ann", project: str = "team-a", name: str = "t1", **more: Any
) -> Any:
    spec = {"image": "python", "args": ["python", "train.py"], "workdir": {"upload": upload_id}, **more}
    return control.call(
        "POST", "/api/v1/workloads/trainings", {"name": name, "projectId": project, "spec": spec}, by=by
    )


# --- one upload, from its beginning to its end ----------------------------------------------------------------


def test_a_folder_is_uploaded_and_its_job_has_its_id(control: ControlPlane, pod_access: FakePodAccess) -> None:
    upload_id, done = upload(control, archive(("train.py", b"print(1)"), ("data", None), ("data/a", b"x" * 1000)))
    assert expect(done, 200) == {
        "id": upload_id,
        "projectId": "team-a",
        "receivedBytes": 0,
        "complete": True,
        "files": 3,
        "bytes": 1008,
    }
    files = pod_access.store.files_of(upload_id)
    assert (files / "train.py").read_text() == "print(1)"
    assert (files.parent.stat().st_mode & 0o077, files.stat().st_mode & 0o077) == (0, 0), "others cannot look into it"
    made = expect(submit(control, upload_id), 202)
    assert made["id"] == upload_id
    (wanted,) = [each for each in control.pull().workloads if each.id == upload_id]
    program = wanted.to_spec().template.program
    assert program.working_dir == "/workdir"
    assert [(each.target, each.uploaded) for each in program.volumes] == [("/workdir", True)]


def test_a_folder_goes_with_its_workload_and_stays_as_long_as_that(
    control: ControlPlane, pod_access: FakePodAccess
) -> None:
    upload_id, _ = upload(control, archive(("train.py", b"")))
    expect(submit(control, upload_id), 202)
    os.utime(pod_access.store.files_of(upload_id).parent / "about.json", (0, 0))
    sweep(control)
    assert pod_access.store.find(upload_id) is not None, "however old it is"
    expect(control.call("DELETE", f"/api/v1/workloads/{upload_id}", by="ann"), 202)
    sweep(control)
    assert pod_access.store.find(upload_id) is not None, "its pods may still be there"
    control.push(control.report(gone=(gone(upload_id),)))
    sweep(control)
    assert pod_access.store.find(upload_id) is None
    assert os.listdir(pod_access.store.files_of(upload_id).parent.parent) == []


def test_an_upload_without_a_job_is_removed_after_an_hour(control: ControlPlane, pod_access: FakePodAccess) -> None:
    upload_id, _ = upload(control, archive(("train.py", b"")))
    begun = expect(control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 10}, by="ann"), 201)["id"]
    sweep(control)
    assert {each.id for each in pod_access.store.all()} == {upload_id, begun}
    for each in (upload_id, begun):
        os.utime(pod_access.store.files_of(each).parent / "about.json", (0, 0))
    (pod_access.store.files_of(begun).parent / "about.json").write_text("{")  # as a power cut might leave it
    os.utime(pod_access.store.files_of(begun).parent, (0, 0))
    sweep(control)
    assert pod_access.store.all() == []


def sweep(control: ControlPlane) -> None:
    plane = control.app.state.plane
    assert control.http.portal is not None
    control.http.portal.call(control_uploads.sweep, plane)


def test_a_repeated_submit_is_answered_alike_and_a_second_job_does_not_get_the_folder(control: ControlPlane) -> None:
    upload_id, _ = upload(control, archive(("train.py", b"")))
    spec = {"image": "python", "workdir": {"upload": upload_id}}
    body = {"name": "t1", "projectId": "team-a", "spec": spec}
    headers = {"Idempotency-Key": "k1"}
    answers = [
        expect(control.call("POST", "/api/v1/workloads/trainings", body, by="ann", headers=headers), 202)
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    again = submit(control, upload_id, name="t2")
    assert (again.status_code, codes(again)) == (422, ["spec.upload"])


@pytest.mark.parametrize(
    ("by", "project"),
    [pytest.param("bob", "team-a", id="another user"), pytest.param("bob", "team-b", id="another project")],
)
def test_no_user_gets_the_folder_of_another(control: ControlPlane, by: str, project: str) -> None:
    upload_id, _ = upload(control, archive(("train.py", b"")))
    answer = submit(control, upload_id, by=by, project=project)
    assert (answer.status_code, codes(answer)) == (422, ["spec.upload"])
    for method, path in (("POST", f"{UPLOADS}/{upload_id}/complete"), ("DELETE", f"{UPLOADS}/{upload_id}")):
        assert control.call(method, path, by=by).status_code == 404


def test_who_may_not_submit_may_not_upload(control: ControlPlane) -> None:
    answer = control.call("POST", UPLOADS, {"projectId": "team-b", "archiveBytes": 10}, by="ann")
    assert answer.status_code == 403


def test_an_upload_that_is_not_complete_is_no_folder(control: ControlPlane) -> None:
    made = expect(control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 10}, by="ann"), 201)
    assert codes(submit(control, made["id"])) == ["spec.upload"]
    finished = control.call("POST", f"{UPLOADS}/{made['id']}/complete", by="ann")
    assert (finished.status_code, codes(finished)) == (409, ["upload.incomplete"])


def test_a_job_keeps_its_folder_from_being_removed_by_hand(control: ControlPlane) -> None:
    upload_id, _ = upload(control, archive(("train.py", b"")))
    expect(submit(control, upload_id), 202)
    answer = control.call("DELETE", f"{UPLOADS}/{upload_id}", by="ann")
    assert (answer.status_code, codes(answer)) == (409, ["upload.in_use"])


def test_a_project_does_not_see_what_an_earlier_one_of_its_name_left(
    control: ControlPlane, pod_access: FakePodAccess
) -> None:
    new = {"claimName": "data", "path": "/d", "existingPvc": False, "claimInfo": {"size": "1Gi"}}
    control.project("team-c")
    job = control.train("t1", project="team-c", storage={"pvc": [new]})["id"]
    for project in ("team-a", "team-c"):
        (pod_access.data.claims / project / "data").mkdir(parents=True)
        (pod_access.data.claims / project / "data" / "secret").touch()
    expect(control.call("DELETE", "/api/v1/org-unit/projects/team-c?workloads=delete"), 202)
    control.push(control.report(gone=(gone(job),)))
    again = control.call("POST", "/api/v1/org-unit/projects", {"name": "team-a", "parentId": "default"})
    assert (again.status_code, codes(again)) == (409, ["project.exists"])
    control.project("team-c")
    assert os.listdir(pod_access.data.claims) == ["team-a"], "those of a project that exists stay"
    (aside,) = (pod_access.data.root / "claims-set-aside").iterdir()
    assert (aside / "data" / "secret").exists(), "nothing is lost"
    assert expect(control.call("GET", "/api/v1/claims?projectId=team-c"), 200)["claims"] == []
    (kept,) = expect(control.call("GET", "/api/v1/claims"), 200)["claims"]
    assert (kept["name"], kept["projectId"], kept["projectDeleted"]) == ("data", aside.name, True)
    path = f"/api/v1/claims/data?projectId={aside.name}"
    assert control.call("DELETE", path, by="ann").status_code == 404, "it is no longer of any project of theirs"
    pod_access.data.trash.mkdir()
    expect(control.call("DELETE", path), 202)
    assert not (aside / "data").exists()
    assert expect(control.call("GET", "/api/v1/claims"), 200)["claims"] == []


# --- bounds --------------------------------------------------------------------------------------------------


def test_what_is_too_large_is_refused_before_it_is_sent(control: ControlPlane) -> None:
    answer = control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 257 << 20}, by="ann")
    assert (answer.status_code, codes(answer)) == (413, ["upload.too_large"])
    expect(control.call("PUT", "/v1/k8s/setting/uploads.maxMebibytes", {"value": 300}), 200)
    assert (
        control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 257 << 20}, by="ann").status_code == 201
    )


def test_all_uploads_together_are_bounded(control: ControlPlane) -> None:
    expect(control.call("PUT", "/v1/k8s/setting/uploads.totalMebibytes", {"value": 1}), 200)
    first, second = (
        control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 600_000}, by="ann") for _ in range(2)
    )
    assert (first.status_code, second.status_code, codes(second)) == (201, 507, ["upload.no_room"])


def test_one_person_has_only_so_many_open(control: ControlPlane) -> None:
    answers = [control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 10}, by="ann") for _ in range(9)]
    assert [each.status_code for each in answers] == [201] * 8 + [429]
    assert control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 10}, by="bob").status_code == 201


def test_finished_ones_that_no_job_uses_count_too(control: ControlPlane) -> None:
    packed = archive(("a", b"1"))
    finished = [upload(control, packed)[0] for _ in range(8)]
    refused = control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 10}, by="ann")
    assert (refused.status_code, codes(refused)) == (429, ["upload.too_many"])
    expect(submit(control, finished[0]), 202)
    assert control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 10}, by="ann").status_code == 201


def test_what_folders_hold_together_is_bounded_once_they_are_unpacked(
    control: ControlPlane, pod_access: FakePodAccess
) -> None:
    expect(control.call("PUT", "/v1/k8s/setting/uploads.totalMebibytes", {"value": 1}), 200)
    packed = archive(("a", bytes(600_000)))
    _, first = upload(control, packed)
    second_id, second = upload(control, packed)
    assert (first.status_code, second.status_code, codes(second)) == (200, 507, ["upload.no_room"])
    assert pod_access.store.find(second_id) is None


@pytest.mark.parametrize(
    ("free_gib", "free_files", "is_refused"),
    [(9, 600_000, False), (2, 600_000, True), (9, 90_000, True)],
    ids=["room enough", "little space", "few files"],
)
def test_uploads_leave_room_on_a_volume_that_the_ledger_is_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_gib: int, free_files: int, is_refused: bool
) -> None:
    block = 4096
    volume = (
        block,
        block,
        (10 << 30) // block,
        *(2 * [(free_gib << 30) // block]),
        655_360,
        *(2 * [free_files]),
        0,
        255,
    )
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(volume))
    upload = Upload(id="0b8c2d1e-1111-4222-8333-0123456789ab", owner="ann", project="a", size_bytes=1 << 20)
    problem = Uploads(tmp_path / "uploads", keeps_free=True).begin(upload, 20 << 30)
    assert (problem.code if problem is not None else "") == ("upload.volume_full" if is_refused else "")


def test_pieces_come_in_order_and_may_come_twice(control: ControlPlane) -> None:
    packed = archive(("a", b"1"))
    made = expect(control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": len(packed)}, by="ann"), 201)
    headers = {"Authorization": f"Bearer {control.tokens['ann']}"}

    def put(offset: int, piece: bytes) -> Any:
        return control.http.put(f"{UPLOADS}/{made['id']}?offset={offset}", content=piece, headers=headers)

    assert codes(put(5, b"x")) == ["upload.gap"]
    assert put(0, packed[:20]).json()["receivedBytes"] == 20
    assert put(0, packed[:20]).json()["receivedBytes"] == 20
    assert codes(put(20, packed)) == ["upload.too_large"]
    assert put(20, packed[20:]).json()["receivedBytes"] == len(packed)
    finish = f"{UPLOADS}/{made['id']}/complete"
    assert expect(control.call("POST", finish, by="ann"), 200) == expect(control.call("POST", finish, by="ann"), 200)


# --- hostile archives ------------------------------------------------------------------------------------------


def raw_tar(name: bytes, content: bytes = b"", kind: bytes = b"0", size: int | None = None) -> bytes:
    """One entry, byte by byte, with a right checksum."""
    header = bytearray(512)
    header[:100] = name.ljust(100, b"\0")[:100]
    header[100:108], header[124:136] = b"0000644\0", b"%011o\0" % (len(content) if size is None else size)
    header[136:148], header[156:157], header[257:265] = b"00000000000\0", kind, b"ustar\x0000"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + content + b"\0" * (-len(content) % 512) + b"\0" * 1024


def pax(key: bytes, value: bytes) -> bytes:
    record = b" " + key + b"=" + value + b"\n"
    length = len(record) + 2
    while len(str(length)) + len(record) != length:
        length += 1
    body = str(length).encode() + record
    return raw_tar(b"pax", body, b"x")[:-1024] + raw_tar(b"short", b"content")


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "an absolute path": (lambda: archive(("/etc/passwd", b"x")), "upload.path"),
    "a path that leads out": (lambda: archive(("a/../../b", b"x")), "upload.path"),
    "a name with a line feed": (lambda: archive(("a\nb", b"x")), "upload.path"),
    "a name that is not UTF-8": (lambda: gzip.compress(raw_tar(b"\xff\xfe", b"x")), "upload.path"),
    "a name that is too long": (lambda: archive(("a" * 300, b"x")), "upload.path"),
    "a path that is too deep": (lambda: archive(("/".join("a" * 70), b"x")), "upload.path"),
    "a symbolic link": (lambda: archive(("a", b""), type=tarfile.SYMTYPE, linkname="/etc"), "upload.not_a_file"),
    "a hard link": (lambda: archive(("a", b""), type=tarfile.LNKTYPE, linkname="b"), "upload.not_a_file"),
    "a device": (lambda: archive(("a", b""), type=tarfile.CHRTYPE), "upload.not_a_file"),
    "a named pipe": (lambda: archive(("a", b""), type=tarfile.FIFOTYPE), "upload.not_a_file"),
    "a sparse file": (lambda: gzip.compress(raw_tar(b"a", b"", b"S")), "upload.not_a_file"),
    "a sparse file in an extended header": (
        lambda: gzip.compress(pax(b"GNU.sparse.size", b"99999999999")),
        "upload.not_a_file",
    ),
    "a size in an extended header": (lambda: gzip.compress(pax(b"size", b"99999999999")), "upload.not_a_file"),
    "a path that leads out, in an extended header": (lambda: gzip.compress(pax(b"path", b"../x")), "upload.path"),
    "a header without end": (lambda: gzip.compress(raw_tar(b"x", b"", b"x", 8 << 30)), "upload.damaged"),
    "a bomb": (lambda: archive(("a", b"\0" * (3 << 20))), "upload.too_large"),
    "a size that is not there": (lambda: gzip.compress(raw_tar(b"a", b"", b"0", 1 << 19)), "upload.damaged"),
    "a size that is huge": (lambda: gzip.compress(raw_tar(b"a", b"", b"0", 7 << 30)), "upload.too_large"),
    "too many files": (lambda: archive(*((str(number), b"") for number in range(101))), "upload.too_many_files"),
    "too many folders": (lambda: archive(*((str(number), None) for number in range(101))), "upload.too_many_files"),
    "headers without files": (
        lambda: gzip.compress(raw_tar(b"g", b"", b"g")[:-1024] * 1000 + raw_tar(b"a", b"x")),
        "upload.too_many_files",
    ),
    "large headers without files": (
        lambda: gzip.compress(raw_tar(b"g", bytes(60_000), b"g")[:-1024] * 100 + raw_tar(b"a", b"x")),
        "upload.too_large",
    ),
    "the folder itself, again and again": (
        lambda: gzip.compress(raw_tar(b"./", b"", b"5")[:-1024] * 1000 + raw_tar(b"a", b"x")),
        "upload.too_many_files",
    ),
    "folders that are only implied": (
        lambda: archive(*(("/".join([str(number), *"abcdefgh", "f"]), b"") for number in range(20))),
        "upload.too_many_files",
    ),
    "a path that no system can open": (lambda: archive(("/".join(["a" * 250] * 20), b"x")), "upload.path"),
    "a folder that no system can open": (lambda: archive(("/".join(["a" * 250] * 20), None)), "upload.path"),
    "a name twice": (lambda: archive(("a", b"1"), ("a", b"2")), "upload.twice"),
    "a file in the place of a folder": (lambda: archive(("a/b", b"1"), ("a", b"2")), "upload.twice"),
    "a folder in the place of a file": (lambda: archive(("a", b"1"), ("a/b", b"2")), "upload.twice"),
    "half an archive": (lambda: archive(("a", os.urandom(5000)))[:-3000], "upload.damaged"),
    "no tar": (lambda: gzip.compress(b"hello" * 1000), "upload.damaged"),
    "no gzip": (lambda: b"hello" * 1000, "upload.damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    make, code = HOSTILE[name]
    (tmp_path / "archive").write_bytes(make())
    found = unpack(tmp_path / "archive", tmp_path / "out", BOUNDS)
    assert isinstance(found, Problem), found
    assert (found.code, bool(found.fix)) == (code, True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["archive", "out"], "nothing outside"


def test_a_refused_archive_is_removed(control: ControlPlane, pod_access: FakePodAccess) -> None:
    upload_id, done = upload(control, archive(("../a", b"x")))
    assert (done.status_code, codes(done)) == (422, ["upload.path"])
    assert pod_access.store.find(upload_id) is None
    assert pod_access.store.all() == []


def test_plain_archives_come_out_as_they_were(tmp_path: Path) -> None:
    long = "folder-" * 20 + "/" + "file-" * 30 + "ä漢"
    (tmp_path / "archive").write_bytes(archive(("./", None), ("./a b", b"1"), (long, b"2"), (".hidden", b"")))
    unpack(tmp_path / "archive", tmp_path / "out", BOUNDS)
    assert (tmp_path / "out" / long).read_bytes() == b"2"
    assert (tmp_path / "out" / "a b").read_bytes() == b"1"
    assert (tmp_path / "out" / ".hidden").exists()
    (tmp_path / "gnu").write_bytes(gzip.compress(raw_tar(b"run.sh", b"#!/bin/sh").replace(b"0000644", b"0000644")))
    assert not isinstance(unpack(tmp_path / "gnu", tmp_path / "out2", BOUNDS), Problem)


def test_what_a_pod_closed_or_nested_deep_is_removed_too(pod_access: FakePodAccess, tmp_path: Path) -> None:
    name = "00000000-0000-4000-8000-000000000000"
    folder = pod_access.store.files_of(name)
    (folder / "closed").mkdir(parents=True)
    (folder / "closed" / "a").write_text("x")
    (folder / "closed").chmod(0)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    pod_access.store.remove(name)
    assert os.listdir(tmp_path / "uploads") == []


def test_nothing_is_uploaded_to_a_cluster_that_is_away(tmp_path: Path) -> None:
    with control_plane(tmp_path, pod_access=None) as control:
        control.project("team-a")
        answer = control.call("POST", UPLOADS, {"projectId": "team-a", "archiveBytes": 10})
        assert (answer.status_code, codes(answer)) == (503, ["cluster.away"])
