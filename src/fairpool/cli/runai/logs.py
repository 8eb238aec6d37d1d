"""`runai logs`: output of one pod or all pods of a job, past or as it is written."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.api.pod_choice import has_log, pod_called, pod_to_read, pods_there
from fairpool.cli.failure import ERROR, Failure, failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.log_stream import LogOptions, Reconnection
from fairpool.cli.runai.session import Session, job
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.runai.terminal_text import Harmless
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.workloads import PodItem, WorkloadItem

LOOK_AGAIN_S = 1.0
PODS_NAMED = 20
OVER = frozenset({"Completed", "Failed", "Stopped", "Deleted"})
FOLLOWED_MAX = 50
"""Each followed pod is a connection and a thread."""
LINE_MAX = 1 << 16
"""Bytes without a line end that are kept back; more are written as a line."""


@command("logs", "runai logs hyper1 --tail 100 -f")
@click.argument("name", shell_complete=job_names)
@flag("-f", "--follow", is_flag=True, help="Stream new output until the pod ends.")
@flag("--pod", metavar="POD", help="Pod by number or name (default: the running or failed pod).")
@flag("-i", "--instance", metavar="POD", hidden=True)
@flag("--all-pods", is_flag=True, help="Show every pod; each line starts with the pod's name.")
@flag("-t", "--tail", type=int, default=-1, metavar="LINES", help="Show only the last LINES lines; -1 for all.")
@flag("--since", metavar="TIME", help="Show only output from the last 90s, 10m, 2h or 1d.")
@flag("--since-time", metavar="DATE", help="Show only output since this time, as in 2026-11-15T12:00:00Z.")
@flag("--timestamps", is_flag=True, help="Start each line with its time, in UTC.")
@flag("--previous", is_flag=True, help="Show the previous try.")
@flag("--raw", is_flag=True, help="Do not strip escape sequences that could harm a terminal.")
@click.pass_obj
def logs(
    options: GlobalOptions,
    name: str,
    follow: bool,
    pod: str | None,
    instance: str | None,
    all_pods: bool,
    tail: int,
    since: str | None,
    since_time: str | None,
    timestamps: bool,
    previous: bool,
    raw: bool,
) -> None:
    """Show the output of a job: of its running pod, of the pod that failed last, or of the pod you name."""
    pod = pod or instance
    _refuse_contradictions(follow=follow, pod=pod, all_pods=all_pods, previous=previous, since=since, at=since_time)
    wanted = LogOptions(None if tail < 0 else tail, _since(since) or since_time, timestamps, follow)
    session = Session(options)
    project = session.project()
    reconnection = Reconnection(options)
    with session.connected() as client:
        found = job(client, project, name, options.kind)
        if all_pods and follow:
            follow_all(session, client, found, wanted, reconnection, raw=raw)
            return
        if all_pods:
            show_all(options, client, found, wanted, previous=previous, raw=raw)
            return
        if follow:
            found = _wait_for_a_pod(client, found, pod, reconnection)
        chosen = _named(client, found, pod) if pod else _choice(options, client, found)
        if previous:
            chosen = _previous(client, found, chosen)
        written = write(wanted.chunks(client, found.id, chosen.id, reconnection), raw=raw)
        if not written and wanted.tail != 0 and wanted.since is None:
            for line in silence(client.history(found.id), chosen.id):
                options.notice(line)


def _refuse_contradictions(
    *, follow: bool, pod: str | None, all_pods: bool, previous: bool, since: str | None, at: str | None
) -> None:
    problems = []
    if all_pods and pod:
        problems.append(Problem("logs.pods", "--all-pods and --pod cannot be used together", "leave one out"))
    if previous and follow:
        what = "--previous shows a try that has ended, so there is nothing to follow"
        problems.append(Problem("logs.previous", what, "leave out --follow"))
    if since and at:
        problems.append(Problem("logs.since", "--since and --since-time cannot be used together", "leave one out"))
    if problems:
        raise Failure(problems)


def _since(text: str | None) -> str | None:
    """The API takes one unit (`90s`); people also write `1h30m`."""
    if text is None:
        return None
    seconds = ages.seconds(text)
    if isinstance(seconds, Problem):
        raise Failure([Problem("logs.since", f"--since {text}: {seconds.what}", seconds.fix)])
    return f"{seconds}s"


# --- which pod -----------------------------------------------------------------------------------------------


def _named(client: Client, found: WorkloadItem, pod: str) -> PodItem:
    """The pod with this id, name or index."""
    pods = client.history(found.id)
    chosen = pod_called(pods, pod)
    if chosen is None:
        raise failure("pod.unknown", f"job {found.name} has no pod {pod}", pods_there(pods))
    return chosen


def _choice(options: GlobalOptions, client: Client, found: WorkloadItem) -> PodItem:
    """The pod that is shown if none was named, with a notice if there are others."""
    pods = client.history(found.id)
    chosen = pod_to_read(pods)
    if chosen is None or not has_log(chosen):
        raise failure("job.no_log", *no_output(found, pods))
    for line in notices(found, pods, chosen):
        options.notice(line)
    return chosen


def notices(found: WorkloadItem, pods: Sequence[PodItem], chosen: PodItem) -> list[str]:
    """If no pod was named: which one is shown, and which others there are."""
    said = []
    current = [pod for pod in pods if pod.current]
    if len(current) > 1:
        others = [str(pod.index) for pod in current if pod.index != chosen.index]
        listed = f"{', '.join(others[:PODS_NAMED])}{', ...' if len(others) > PODS_NAMED else ''}"
        failed = ", which failed" if chosen.outcome == "error" else ""
        said.append(f"{found.name} has {len(current)} pods; showing pod {chosen.index}{failed}; others: --pod {listed}")
    newest = next(pod for pod in current if pod.index == chosen.index)
    if newest is not chosen:
        how = f" ({chosen.detail})" if chosen.detail else ""
        when = f" It starts at {ages.ahead(found.next_try_at)}." if found.next_try_at else ""
        said.append(f"Showing {chosen.name}, which ended{how}; {newest.name} has not started yet.{when}")
    return said


def silence(pods: Sequence[PodItem], which: str) -> list[str]:
    """Notices for a pod without output: whether it may still come, and which earlier pod has some."""
    pod = pod_called(pods, which)
    if pod is None:
        return []
    if pod.phase != "ended":
        return [f"{pod.name} has no output yet."]
    code = "" if pod.exit_code is None else f" with exit code {pod.exit_code}"
    said = [f"{pod.name} ended{code} without output."]
    before = [each for each in pods if each.index == pod.index and each.incarnation < pod.incarnation]
    earlier = [each.name for each in before if has_log(each)]
    return [*said, *([f"Output of the previous try: --pod {earlier[-1]}"] if earlier else [])]


def no_output(found: WorkloadItem, pods: Sequence[PodItem]) -> tuple[str, str]:
    """Why a job has no output, and what to do."""
    name, status = found.name, found.classic_status or found.phase
    ended = [pod for pod in pods if pod.phase == "ended" and pod.outcome == "error"]
    why = found.phase_message
    if not why and ended:
        last = max(ended, key=lambda pod: pod.since)
        why = last.detail or last.problem or ""
    problem = next((pod.problem for pod in pods if pod.current and pod.problem), "")
    because = f": {why or problem}" if why or problem else ""
    if found.phase in OVER:
        return f"Job {name} has no output: it is {status} and never started{because}", f"see: runai why {name}"
    if found.next_try_at:
        after = f"wait with runai logs -f {name}, or see: runai why {name}"
        return (
            f"Job {name} has no output yet: it is {status}{because}; next try at {ages.ahead(found.next_try_at)}",
            after,
        )
    after = f"wait with runai logs -f {name}, or see why: runai why {name}"
    return f"Job {name} has not started yet, so it has no output: it is {status}{because}", after


def _previous(client: Client, found: WorkloadItem, chosen: PodItem) -> PodItem:
    """The latest earlier pod of the same index that has output."""
    tries = [pod for pod in client.history(found.id) if pod.index == chosen.index]
    newest = max(tries, key=lambda pod: pod.incarnation)
    earlier = [pod for pod in tries if pod.incarnation < newest.incarnation and has_log(pod)]
    if not earlier:
        what = f"pod {chosen.index} of job {found.name} has no earlier try with output"
        raise failure("pod.no_previous", what, f"see its tries: runai history {found.name}")
    return earlier[-1]


def _wait_for_a_pod(client: Client, found: WorkloadItem, pod: str | None, reconnection: Reconnection) -> WorkloadItem:
    """With `--follow`, wait until a pod has started."""
    reported = ""
    ask = reconnection.until_answered
    while pod is None and not any(each.started_at or each.phase == "ended" for each in ask(client.pods, found.id)):
        found = ask(client.workload, found.id)
        if found.phase in OVER or found.desired_phase != "Running":
            return found
        if reported != found.classic_status:
            because = f" ({found.phase_message})" if found.phase_message else ""
            words = f"Job {found.name} is {found.classic_status}{because}; waiting for its output ..."
            reconnection.options.notice(words)
            reported = found.classic_status
        time.sleep(LOOK_AGAIN_S)
    return found


# --- one pod -------------------------------------------------------------------------------------------------


def write(chunks: Iterator[bytes], *, raw: bool) -> int:
    """To a pipe as it is; to a terminal without harmful escape sequences, unless `raw`. Returns the number of bytes."""
    out = sys.stdout.buffer
    count = 0
    if raw or not sys.stdout.isatty():
        for chunk in chunks:
            count += len(chunk)
            out.write(chunk)
            out.flush()
        return count
    harmless = Harmless()
    for chunk in chunks:
        count += len(chunk)
        out.write(harmless.feed(chunk).encode())
        out.flush()
    out.write(harmless.finish().encode() + b"\x1b[0m")  # a colour that was left on stays in the log
    out.flush()
    return count


# --- all pods ------------------------------------------------------------------------------------------------


class Interleaved:
    """Lines of several pods on one output, each with the name of its pod; safe to use from several threads."""

    def __init__(self, *, raw: bool) -> None:
        self.error: OSError | None = None
        """Why nothing more can be written."""
        self._lock = threading.Lock()
        self._is_cleaned = sys.stdout.isatty() and not raw

    def copy(self, name: str, chunks: Iterator[bytes]) -> None:
        """One pod's output, line by line."""
        prefix = f"[{name}] ".encode()
        harmless = Harmless()
        rest = b""
        for chunk in chunks:
            *lines, rest = (rest + (harmless.feed(chunk).encode() if self._is_cleaned else chunk)).split(b"\n")
            if len(rest) > LINE_MAX:  # a progress bar without line ends, or worse
                lines, rest = [*lines, rest], b""
            self._put(prefix, lines)
        last = rest + (harmless.finish().encode() if self._is_cleaned else b"")
        if last:
            self._put(prefix, [last])

    def _put(self, prefix: bytes, lines: Sequence[bytes]) -> None:
        end = b"\x1b[0m\n" if self._is_cleaned else b"\n"
        with self._lock:
            sys.stdout.buffer.write(b"".join(prefix + line + end for line in lines))
            sys.stdout.buffer.flush()


def show_all(
    options: GlobalOptions, client: Client, found: WorkloadItem, wanted: LogOptions, *, previous: bool, raw: bool
) -> None:
    """One pod after the other."""
    pods = client.history(found.id)
    chosen = _with_output(pods, previous=previous)
    if not chosen and previous:
        what = f"no pod of job {found.name} has an earlier try with output"
        raise failure("pod.no_previous", what, f"list its tries: runai history {found.name}")
    if not chosen:
        raise failure("job.no_log", *no_output(found, pods))
    silent = len({pod.index for pod in pods}) - len(chosen)
    if silent:
        options.notice(f"{silent} of {silent + len(chosen)} pods {'has' if silent == 1 else 'have'} no output yet.")
    out = Interleaved(raw=raw)
    for pod in chosen:
        out.copy(pod.name, wanted.chunks(client, found.id, pod.id, Reconnection(options)))


def _with_output(pods: Sequence[PodItem], *, previous: bool) -> list[PodItem]:
    """For each index, the latest pod with output, or the one before."""
    tries: dict[int, list[PodItem]] = {}
    for pod in pods:
        if has_log(pod) and not (previous and pod.current):
            tries.setdefault(pod.index, []).append(pod)
    return [max(tries[index], key=lambda pod: pod.incarnation) for index in sorted(tries)]


def follow_all(
    session: Session,
    client: Client,
    found: WorkloadItem,
    wanted: LogOptions,
    reconnection: Reconnection,
    *,
    raw: bool,
) -> None:
    """Every pod as it writes, also those that start later, until the job is over."""
    out = Interleaved(raw=raw)
    followed: dict[str, threading.Thread] = {}
    failures: list[Failure] = []
    reported = False
    ask = reconnection.until_answered
    while True:
        found = ask(client.workload, found.id)
        pods = ask(client.pods, found.id)
        fresh = [pod for pod in pods if has_log(pod) and pod.id not in followed]
        if len(fresh) + sum(thread.is_alive() for thread in followed.values()) > FOLLOWED_MAX:
            what = f"job {found.name} has more than {FOLLOWED_MAX} pods to follow"
            raise failure("logs.too_many", what, "name one with --pod, or leave out --follow")
        for pod in fresh:
            read = _reading(session, found.id, pod, wanted, out, failures, reconnection)
            followed[pod.id] = threading.Thread(target=read, daemon=True)
            followed[pod.id].start()
        if out.error is not None:
            raise out.error
        is_over = found.phase in OVER or found.desired_phase != "Running"
        if is_over and not any(thread.is_alive() for thread in followed.values()):
            break
        if not followed and not reported:
            session.options.notice(f"Job {found.name} is {found.classic_status}; waiting for its output ...")
            reported = True
        time.sleep(LOOK_AGAIN_S)
    if failures:
        raise Failure([problem for each in failures for problem in each.problems], exit_code=ERROR)
    if not followed:
        raise failure("job.no_log", *no_output(found, client.history(found.id)))


def _reading(
    session: Session,
    workload: str,
    pod: PodItem,
    wanted: LogOptions,
    out: Interleaved,
    failures: list[Failure],
    reconnection: Reconnection,
) -> Callable[[], None]:
    def read() -> None:
        try:
            with session.connected() as client:  # one for each thread
                out.copy(pod.name, wanted.chunks(client, workload, pod.id, reconnection))
        except Failure as failed:
            failures.append(failed)
        except OSError as error:
            out.error = error  # standard output was closed

    return read
