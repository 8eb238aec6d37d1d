"""The one client of the control plane: a method per call, answers as values, errors as problems.

Every creating call carries an `Idempotency-Key`, so that a call whose answer was lost may be made again. A client is
for one thread. Requests are checked and answers made by the server; here both are plain JSON, read as `Record`s whose
static types are the models of `api/`. Nothing here imports those: commands are started often and are over soon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairpool.api.access_calls import AccessCalls
from fairpool.api.accounting_calls import AccountingCalls
from fairpool.api.asset_calls import AssetCalls
from fairpool.api.calls import TIMEOUT_S, event_data, refused_answer
from fairpool.api.calls import Refused as Refused
from fairpool.api.calls import new_key as new_key
from fairpool.api.loopback import Unreachable as Unreachable
from fairpool.api.organization_calls import OrganizationCalls
from fairpool.api.policy_calls import PolicyCalls
from fairpool.api.scheduling_calls import SchedulingCalls
from fairpool.api.security_calls import SecurityCalls
from fairpool.api.storage_calls import StorageCalls

if TYPE_CHECKING:
    from fairpool.api import measured as measured_wire
    from fairpool.api import questions, uploads, workload_spec
    from fairpool.api import workloads as work
    from fairpool.api.shell_client import Shell
    from fairpool.api.wire import Request

    Json = Mapping[str, Any]
    Body = Request | Json

PATHS = {
    "Workspace": "workspaces",
    "Training": "trainings",
    "Distributed": "distributed",
    "Inference": "inferences",
}
NOT_CHANGES = frozenset({"alive", "samples"})
"""Events of the stream of changes that tell of no change."""
CHANGES_SILENCE_S = 60.0
"""The stream of changes carries an event more often than that."""
COMMAND_IN_ADDRESS_MAX = 4000
"""Bytes; servers read no more than 8 KB of a request's first line. A longer command is sent as the first message."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A workload to submit, as it travels: `kind` is Workspace, Training, Distributed or Inference."""

    kind: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """An event of the change feed: what changed, and its new state."""

    revision: int
    noun: str
    id: str
    verb: str
    project: str | None
    object: dict[str, Any] | None


class Client(
    AccessCalls,
    AccountingCalls,
    AssetCalls,
    OrganizationCalls,
    PolicyCalls,
    SecurityCalls,
    StorageCalls,
    SchedulingCalls,
):
    """Calls to one control plane, as one caller."""

    # --- workloads -------------------------------------------------------------------------------------------

    def submit(self, request: workload_spec.SubmitAny | Submission, key: str | None = None) -> work.Workload:
        """Submit a workload. With the same key it is created once, however often this is called."""
        path, body = _submitted(request)
        return self._post(path, body, key)

    def check(self, request: workload_spec.SubmitAny | Submission) -> work.Workload:
        """What submitting this would answer; nothing is submitted."""
        path, body = _submitted(request)
        return self._read(self._call("POST", path, body, params={"dryRun": "true"}))

    def begin_upload(self, project: str, archive_bytes: int) -> uploads.UploadAnswer:
        """Announce the archive of a folder."""
        body = {"projectId": project, "archiveBytes": archive_bytes}
        return self._read(self._call("POST", "/api/v1/uploads", body))

    def write_upload(self, upload_id: str, offset: int, piece: bytes) -> uploads.UploadAnswer:
        """Send a piece of it; one whose answer was lost may be sent again."""
        headers = {**self._headers(), "Content-Type": "application/octet-stream"}
        path = f"/api/v1/uploads/{upload_id}"
        answer = self._sent("PUT", path, content=piece, params={"offset": offset}, headers=headers)
        return self._read(answer)

    def finish_upload(self, upload_id: str) -> uploads.UploadAnswer:
        """Unpack it."""
        return self._read(self._call("POST", f"/api/v1/uploads/{upload_id}/complete"))

    def remove_upload(self, upload_id: str) -> None:
        """Delete an upload that no job uses."""
        self._call("DELETE", f"/api/v1/uploads/{upload_id}")

    def workloads(
        self,
        *,
        filters: Sequence[str] = (),
        search: str = "",
        sort_by: str = "",
        descending: bool = False,
        offset: int = 0,
        limit: int = 50,
    ) -> work.WorkloadPage:
        """One page, for instance with `filters=["phase==Running", "projectName==team-a"]`."""
        params: dict[str, Any] = {"offset": offset, "limit": limit}
        if filters:
            params["filterBy"] = ",".join(filters)
        if search:
            params["search"] = search
        if sort_by:
            params |= {"sortBy": sort_by, "sortOrder": "desc" if descending else "asc"}
        return self._get("/api/v1/workloads", params)

    def all_workloads(self, *, filters: Sequence[str] = (), measured: bool = False) -> list[work.WorkloadItem]:
        """Every page, by project and name; `measured`: with what was last measured of each."""
        params = {"filterBy": ",".join(filters)} if filters else {}
        params |= {"measured": "true"} if measured else {}
        found = self._all("/api/v1/workloads", "workloads", params)
        return sorted(found, key=lambda each: (each.project_name, each.name))

    def workload(self, workload_id: str) -> work.Workload:
        return self._get(f"/api/v1/workloads/{workload_id}")

    def measured(self, workload_id: str) -> measured_wire.MeasuredWorkload:
        """What was last measured of a workload, its pods and their devices."""
        return self._get(f"/api/v1/workloads/{workload_id}/measured")

    def find_workload(self, project: str, name: str) -> work.WorkloadItem | None:
        """The one that has this name now; a deleted one has given it up."""
        page = self.workloads(filters=[f"projectName=={project}", f"name=={name}", "desiredPhase!=Deleted"], limit=1)
        return page.workloads[0] if page.workloads else None

    def update(
        self,
        found: work.WorkloadItem,
        fields: Mapping[str, Any],
        *,
        wait_anyway: bool = False,
        dry_run: bool = False,
    ) -> work.Workload:
        """Replace fields of the specification of a workload as it was read. Refused with 412 if it was changed
        meanwhile."""
        body = {"spec": fields, **({"waitAnyway": True} if wait_anyway else {})}
        path = f"/api/v1/workloads/{PATHS[found.type]}/{found.id}{'?dryRun=true' if dry_run else ''}"
        return self._change("PATCH", path, body, found.revision)

    def events(self, workload_id: str) -> list[work.EventItem]:
        return self._all(f"/api/v1/workloads/{workload_id}/events", "events")

    def history(self, workload_id: str) -> list[work.PodItem]:
        return self._all(f"/api/v1/workloads/{workload_id}/history", "history")

    def pods(self, workload_id: str) -> list[work.PodItem]:
        return self._all(f"/api/v1/workloads/{workload_id}/pods", "pods")

    def suspend(self, workload_id: str) -> None:
        self._call("POST", f"/api/v1/workloads/{workload_id}/suspend")

    def resume(self, workload_id: str) -> None:
        self._call("POST", f"/api/v1/workloads/{workload_id}/resume")

    def leaving_workloads(self, project: str, name: str) -> list[work.WorkloadItem]:
        """Those of this name that are being deleted."""
        filters = [f"projectName=={project}", f"name=={name}", "desiredPhase==Deleted"]
        return self.all_workloads(filters=filters)

    def delete_workload(self, workload_id: str, *, force: bool = False) -> None:
        """`force`: kill its pods at once, also if it is being deleted already."""
        self._call("DELETE", f"/api/v1/workloads/{workload_id}{'?force=true' if force else ''}")

    def batch(self, ids: Sequence[str], action: str, *, force: bool = False) -> work.BatchAnswer:
        """`action` is delete, suspend or resume."""
        return self._post("/api/v1/workloads/batch", {"ids": list(ids), "action": action, "force": force})

    def logs(
        self,
        workload_id: str,
        *,
        pod: str | None = None,
        tail: int | None = None,
        offset: int = 0,
        since: str | None = None,
        timestamps: bool = False,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """What a pod wrote, as it comes; which pod without `pod`: see `pod_choice.pod_to_read`. `since` is a time, or
        how long ago: `10m`."""
        wanted = {"pod": pod, "tail": tail, "since": since, "timestamps": timestamps, "offset": offset}
        with self._log(workload_id, wanted, follow=follow) as pieces:
            yield from pieces

    def log_pieces(self, workload_id: str, *, follow: bool = False, **wanted: Any) -> Iterator[tuple[int, bytes]]:
        """The same, each piece with the offset where reading goes on after it. Raises `Unreachable` if it is cut
        off."""
        from fairpool.api.log_pieces import CutOff, read_pieces

        with self._log(workload_id, {**wanted, "pieces": True}, follow=follow) as pieces:
            try:
                yield from read_pieces(pieces)
            except CutOff as error:
                raise Unreachable(self.address, str(error), connected=True) from error

    @contextmanager
    def _log(self, workload_id: str, wanted: Mapping[str, Any], *, follow: bool) -> Iterator[Iterator[bytes]]:
        said = {name: value for name, value in wanted.items() if value is not None and value is not False}
        params = {**said, **({"follow": True} if follow else {})}
        path = f"/api/v1/workloads/{workload_id}/logs"
        with self._stream("GET", path, params=params, silence_s=None if follow else TIMEOUT_S) as pieces:
            yield pieces

    def snapshot(self, cluster: str, *, pool: str | None = None, cycle: int | None = None) -> Iterator[bytes]:
        """What the scheduler of a cluster sees now, or saw in a past cycle, as the bytes of a snapshot file."""
        said = {"nodePool": pool, "cycle": cycle}
        params = {name: value for name, value in said.items() if value is not None}
        with self._stream("GET", f"/api/v1/clusters/{cluster}/snapshot", params=params) as pieces:
            yield from pieces

    def past_cycles(self, cluster: str) -> list[questions.PastCycle]:
        """Past cycles whose snapshots are kept, the newest first."""
        return self._get(f"/api/v1/clusters/{cluster}/cycles").cycles

    def what_if(self, cluster: str, request: questions.WhatIfRequest | Json) -> questions.WhatIfAnswer:
        """The plan of a cluster as it is, and with changes."""
        return self._read(self._call("POST", f"/api/v1/clusters/{cluster}/what-if", request))

    @contextmanager
    def shell(
        self, workload_id: str, command: Sequence[str] = (), *, pod: str | None = None, tty: bool = False
    ) -> Iterator[Shell]:
        """A process in a pod, or with no command the pod's own, with its streams; raises `Refused` before it begins."""
        from urllib.parse import urlencode

        params: list[tuple[str, Any]] = [("command", word) for word in command]
        follows = len(urlencode(params)) > COMMAND_IN_ADDRESS_MAX
        if follows:
            params = [("commandFollows", True)]
        params += [("tty", tty), *([("pod", pod)] if pod else [])]
        path = f"/api/v1/workloads/{workload_id}/{'exec' if command else 'attach'}"
        with self._frames(path, params) as shell:
            if follows:
                shell.send_command(command)
            yield shell

    @contextmanager
    def port(self, workload_id: str, port: int, *, pod: str | None = None) -> Iterator[Shell]:
        """A connection to a port of a pod, with the frames of a shell; raises `Refused` before it begins."""
        params = [("port", port), *([("pod", pod)] if pod else [])]
        with self._frames(f"/api/v1/workloads/{workload_id}/port-forward", params) as connection:
            yield connection

    @contextmanager
    def _frames(self, path: str, params: Sequence[tuple[str, Any]]) -> Iterator[Shell]:
        from fairpool.api.network import UpgradeRefused  # takes 100 ms, and not every command has a shell
        from fairpool.api.shell_client import MESSAGE_MAX, Shell

        try:
            with self._http.websocket(path, params=params, headers=self._headers(), message_max=MESSAGE_MAX) as socket:
                yield Shell(socket)
        except UpgradeRefused as error:
            raise refused_answer(error.reply) from error

    def priorities(self) -> list[work.PriorityClass]:
        return self._all("/api/v1/workload-priorities", "workloadPriorities")

    # --- changes ---------------------------------------------------------------------------------------------

    def changes(self, after: int | None = None) -> Iterator[Change]:
        """What changes from now on, or since a revision, without end; after a broken connection it goes on where it
        was. A `reset` means that too much happened meanwhile: read everything again."""
        while True:
            headers = {} if after is None else {"Last-Event-ID": str(after)}
            try:
                with self._stream("GET", "/api/v1/changes", headers=headers, silence_s=CHANGES_SILENCE_S) as pieces:
                    for data in event_data(pieces):
                        change = _change(json.loads(data))
                        if change.noun in NOT_CHANGES:
                            continue
                        after = change.revision
                        yield change
            except Unreachable:
                if after is None:
                    raise


def _change(data: dict[str, Any]) -> Change:
    return Change(
        revision=data["revision"],
        noun=data["noun"],
        id=data["id"],
        verb=data["verb"],
        project=data.get("projectId"),
        object=data.get("object"),
    )


def _submitted(request: workload_spec.SubmitAny | Submission) -> tuple[str, Body]:
    if isinstance(request, Submission):
        return f"/api/v1/workloads/{PATHS[request.kind]}", request.body
    return f"/api/v1/workloads/{PATHS[type(request).__name__.removeprefix('Submit')]}", request
