"""Submits the jobs of `runai submit`: from flags or a job file, checked, printed or sent.

Everything that is wrong is reported before anything is sent. Of several jobs, all are checked by the server first.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client, Refused, Submission, Unreachable, new_key
from fairpool.api.loopback import is_here
from fairpool.api.record import document
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai import field_flags, mounts, port_flags, submission, workdir
from fairpool.cli.runai.flags import GlobalOptions
from fairpool.cli.runai.listing import show_document, yaml_text
from fairpool.cli.runai.port_forward import forward_submitted
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.shells import attach_to
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.questions import StartForecast
    from fairpool.api.workloads import Workload
    from fairpool.cli.runai.job_file import Job

SERVICE_URLS = "Note: while the job runs, `runai list -o wide` shows its address under SERVICE URL(S)."
EXTERNAL_PORTS = (
    "Note: every program on the server's machine can connect to the external port, and so can other machines unless "
    "Fairpool listens on 127.0.0.1 only. While the job runs, `runai list -o wide` shows its address under "
    "SERVICE URL(S)."
)
VALUE_SHOWN_MAX = 64
PREEMPTIBLE = "Warning: Using the preemptible flag may lead to your resources being preempted without notice"


@dataclass(frozen=True, slots=True)
class Planned:
    """One job, ready to be sent."""

    body: Mapping[str, Any]
    """What is sent, in the server's words."""
    kind: str
    folder: str | None = None
    """What is uploaded for it, and to where in its pods."""
    path: str = workdir.PATH
    exclude: tuple[str, ...] = ()
    job: Job | None = None
    """The job of a file that it comes from."""

    def document(self) -> dict[str, Any]:
        """As a job file."""
        from fairpool.cli.runai import job_file  # loads YAML and the models of the API

        said = job_file.in_order(self.body, self.kind)
        own = {name: value for name, value in said.items() if name not in ("source", "commandLine", "spec")}
        if self.folder is not None:
            own["workdir"] = self.folder if self.path == workdir.PATH else f"{self.folder}:{self.path}"
            own |= {"exclude": list(self.exclude)} if self.exclude else {}
        return {"kind": self.kind, **own, "spec": said["spec"]}


def send(options: GlobalOptions, asked: dict[str, Any], line: str) -> int:
    """Check, print or submit the jobs; returns the exit code."""
    session = Session(options)
    if asked["jupyter"]:
        asked |= port_flags.notebook(asked, secrets.token_hex(24))
    wrong = _with_own_folders(asked, session.server)
    wrong += submission.problems(asked) + port_flags.unmapped(asked)
    wrong += _owner_problems(session, asked["user"])
    if wrong:
        raise Failure(wrong)
    jobs = list(planned(asked, session, line))
    if asked["dry_run"]:
        _try(session, asked, jobs)
        return 0
    _hint(options, asked)
    if asked["preemptible"]:
        options.warn(PREEMPTIBLE)
    return _submit_all(options, session, asked, jobs)


def _with_own_folders(asked: dict[str, Any], server: str) -> list[Problem]:
    """`-v .:/w` with the current folder."""
    folder = os.getcwd() if is_here(server) else None
    found = [mounts.on_this_machine(text, folder) for text in asked["volume"]]
    asked["volume"] = tuple(each for each in found if isinstance(each, str))
    return [each for each in found if isinstance(each, Problem)]


def _owner_problems(session: Session, user: str | None) -> list[Problem]:
    """`--user`: a job belongs to the user who is signed in."""
    login = session.configuration.login(session.server)
    if user is None or login is None or user == login.user:
        return []
    what = f"--user {user}: a job belongs to the user who is signed in, {login.user}"
    return [Problem("flag.user", what, f"leave it out, or sign in: runai login -u {user}")]


# --- from flags and files to jobs ----------------------------------------------------------------------------------


def planned(asked: Mapping[str, Any], session: Session, line: str) -> Iterator[Planned]:
    """Every job of the flags or the file; raises a failure with all that is wrong with any of them."""
    if asked["exclude"] and asked["workdir"] is None and not asked["file"]:
        raise failure("flag.exclude", "--exclude needs --workdir", "add --workdir ., or leave out --exclude")
    if not asked["file"]:
        cluster = session.default("cluster")
        body = submission.document(asked, project=session.project(), cluster=cluster, command_line=line)
        plain = Planned(body, submission.kind_of(asked))
        yield _with_folder(plain, asked["workdir"], asked["exclude"], os.getcwd())
        return
    jobs = jobs_in(asked["file"])
    if len(jobs) > 1 and (asked["name"] or asked["named"]):
        what = f"{asked['file']} contains {len(jobs)} jobs, so a single name cannot be used"
        raise failure("flag.one_name", what, "leave out the name, or use --name-prefix")
    problems: list[Problem] = []
    for job in jobs:
        made = _from_file(job, asked, session, line)
        if isinstance(made, list):
            problems += made
        else:
            yield made
    if problems:
        raise Failure(problems)


def file_text(file: str) -> tuple[str, str]:
    """The text of a file, and what to call it."""
    from fairpool.cli.runai import job_file  # loads YAML and the models of the API

    source = "standard input" if file == "-" else file
    try:
        with click.open_file(file, "rb") as opened:
            text = opened.read(job_file.TEXT_MAX * 4 + 1).decode("utf-8-sig")
    except OSError as error:
        raise failure("file.unreadable", f"{source} cannot be read ({error.strerror})", "check the path") from error
    except UnicodeDecodeError as error:
        raise failure("file.not_text", f"{source} is not UTF-8 text", "save it as UTF-8") from error
    return text, source


def jobs_in(file: str) -> list[Job]:
    from fairpool.cli.runai import job_file  # loads YAML and the models of the API

    jobs = job_file.read(*file_text(file))
    problems = [each for each in jobs if isinstance(each, Problem)]
    if problems:
        raise Failure(problems)
    return [each for each in jobs if isinstance(each, job_file.Job)]


def _from_file(job: Job, asked: Mapping[str, Any], session: Session, line: str) -> Planned | list[Problem]:
    from fairpool.cli.runai import job_file  # loads YAML and the models of the API

    wanted = session.options.kind
    if ("kind",) in job.lines and not wanted.includes(job.kind, wanted.framework):
        what = f"{job.where(('kind',))}: {job.kind} is not a {wanted.noun}"
        return [Problem("file.kind", what, "submit it with `runai submit -f`")]
    project = session.options.project or job.body.get("projectId") or session.project()
    said = submission.document(asked, project=project, cluster=None, command_line=line)
    kind = submission.kind_of(asked, job.kind)
    body = submission.over(job.body, said, asked)
    merged = job_file.Job(body, job.source, kind, job.workdir, job.exclude, job.lines)
    checked = job_file.checked(merged)
    if isinstance(checked, list):
        return checked
    made = Planned(checked, kind, job=merged)
    if asked["workdir"] is not None:
        return _with_folder(made, asked["workdir"], asked["exclude"], os.getcwd())
    beside = os.getcwd() if asked["file"] == "-" else os.path.dirname(os.path.abspath(asked["file"]))
    return _with_folder(made, job.workdir, (*job.exclude, *asked["exclude"]), beside)


def _with_folder(made: Planned, text: str | None, exclude: Sequence[str], beside: str) -> Planned:
    """With its folder by its full path."""
    if text is None:
        return made
    folder, path = workdir.folder_and_path(text)
    full = os.path.normpath(os.path.join(beside, os.path.expanduser(folder)))
    return replace(made, folder=full, path=path, exclude=tuple(exclude))


# --- checking, printing, sending -----------------------------------------------------------------------------------


def _try(session: Session, asked: Mapping[str, Any], jobs: Sequence[Planned]) -> None:
    """Let the server check all of them, and print them."""
    for each in jobs:
        if each.folder is not None:
            workdir.look_through(each.folder, each.exclude)
    with session.connected() as client:
        checked = _check(client, jobs)
    _print([each.document() for each in jobs], "json" if asked["output"] == "json" else "yaml")
    for job in checked:
        click.echo(f"{printable(job.name)} would be accepted; nothing was submitted.", err=True)
        for path, origin in sorted((job.value_origins or {}).items()):
            click.echo(printable(f"  {path}{_value_text(job.spec or {}, path)} is from {origin}"), err=True)
        for line in forecast_lines(job.forecast):
            click.echo(printable(line), err=True)


def _value_text(spec: Mapping[str, Any], path: str) -> str:
    """` (0.5)`: the value of a field that is one word; of others nothing."""
    top, _, below = path.partition(".")
    inside = spec.get(top)
    value = inside.get(below) if below and isinstance(inside, Mapping) else inside
    return f" ({value})" if isinstance(value, str | int | float) and len(str(value)) <= VALUE_SHOWN_MAX else ""


def forecast_lines(forecast: StartForecast | None) -> list[str]:
    """Whether it would start now, and which jobs would lose their place for it."""
    if forecast is None:
        return []
    if forecast.outcome == "unknown":
        return [f"Whether it would start now is not known: {forecast.message}."]
    lines = [f"It {forecast.message}."]
    for victim in forecast.victims or []:
        pods = f"{victim.pods} pod{'' if victim.pods == 1 else 's'}"
        of = f" of project {victim.project}" if victim.project != "another project" else ""
        lines.append(f"  Preempted for it: {pods} of {victim.workload}{of}")
    return lines


def _check(client: Client, jobs: Sequence[Planned]) -> list[Workload]:
    """As they would be; raises a failure with everything that is wrong with any of them."""
    problems: list[Problem] = []
    checked: list[Workload] = []
    coming: set[tuple[str, str]] = set()
    for each in jobs:
        key = (each.body["projectId"], each.body.get("name") or "")
        if key in coming and not each.body.get("useGivenNameAsPrefix"):
            what = f"two jobs have the name {key[1]}"
            problems.append(Problem("file.name_twice", what, "give each job a different name"))
        body = _without_those_to_come(each.body, coming)
        coming.add(key)
        try:
            checked.append(client.check(Submission(each.kind, body)))
        except Refused as refusal:
            if refusal.status not in (409, 422):
                raise
            problems += _in_words(refusal, each)
    if problems:
        raise Failure(problems)
    return checked


def _without_those_to_come(body: Mapping[str, Any], coming: set[tuple[str, str]]) -> Mapping[str, Any]:
    """Earlier jobs of the same file do not exist yet when a later one is checked."""
    spec = body["spec"]
    kept = [each for each in spec.get("after", []) if (body["projectId"], each.partition(":")[0]) not in coming]
    return {**body, "spec": {**spec, "after": kept}} if "after" in spec else body


def _submit_all(options: GlobalOptions, session: Session, asked: Mapping[str, Any], jobs: Sequence[Planned]) -> int:
    with session.connected() as client:
        forwarded = port_flags.forwarded(asked)
        if len(jobs) > 1:
            if forwarded:
                what = f"ports of {len(jobs)} jobs cannot be forwarded at once"
                raise failure("flag.forward_several", what, "use `runai port-forward JOB` for each")
            _check(client, jobs)
        made = [_submit_one(client, session, asked, each) for each in jobs]
        if asked["output"] in ("json", "yaml"):
            _print(document(made), asked["output"])
        kinds = port_flags.kinds(asked)
        if kinds & {"nodeport", "loadbalancer"}:
            options.warn(EXTERNAL_PORTS)
        elif kinds & {"ingress", port_flags.EXTERNAL_URL}:
            options.warn(SERVICE_URLS)
        if asked["jupyter"]:
            token = dict(each.partition("=")[::2] for each in asked["environment"])[port_flags.NOTEBOOK_TOKEN]
            click.echo(f"Jupyter notebook token: {token}", err=True)
        if asked["attach"]:
            return attach_to(client, made[0].project_name, made[0].name)
    if forwarded:
        return forward_submitted(session, made[0].id, made[0].name, forwarded, port_flags.addresses(asked))
    return 0


def _submit_one(client: Client, session: Session, asked: Mapping[str, Any], planned: Planned) -> Workload:
    with _in_flags(planned):
        body = planned.body if planned.folder is None else _with_files(client, session, planned, planned.folder)
        made = _submitted(client, planned.kind, body)
    if asked["output"] is None:
        leader = "" if asked.get("no_master") else "launcher" if asked.get("framework") == "MPI" else "master"
        _say(made, size_text(made, leader) if asked.get("framework") else "")
    elif asked["output"] == "name":
        click.echo(printable(made.name))
    return made


def _runs_here(client: Client, project: str) -> bool:
    """Whether the project's cluster is on the machine of the server, whose folders it then sees."""
    cluster = client.project(project).cluster_id
    return any(each.uuid == cluster and each.in_control_plane for each in client.clusters())


def _with_files(client: Client, session: Session, planned: Planned, folder: str) -> Mapping[str, Any]:
    """With its folder: mounted where that is possible, otherwise uploaded."""
    body, options = planned.body, session.options
    own = session.configuration
    is_shared = workdir.is_shared(folder, planned.exclude, own.socket(session.server), [str(own.place)])
    if is_shared and _runs_here(client, body["projectId"]):
        options.notice(f"Mounting {folder} at {planned.path}: the job uses the folder itself, not a copy.")
        return workdir.mounted(body, folder, planned.path)
    try:  # a folder is not sent for nothing
        client.check(Submission(planned.kind, body))
    except Refused as refusal:
        if not all(each.code == "spec.after" for each in refusal.problems):
            raise
    upload = workdir.bring(client, body["projectId"], folder, planned.exclude, options.warn)
    return {**body, "spec": {**body["spec"], "workdir": {"upload": upload, "path": planned.path}}}


@contextmanager
def _in_flags(planned: Planned) -> Iterator[None]:
    try:
        yield
    except Refused as refusal:
        if refusal.status not in (409, 413, 422, 429, 507):
            raise
        raise Failure(_in_words(refusal, planned)) from refusal


def _in_words(refusal: Refused, planned: Planned) -> list[Problem]:
    """Refusals of the server, by flag or by line of the file."""
    found = []
    for item in refusal.items:
        field = item.field or ""
        if planned.job is not None and field:
            found.append(by_line(planned.job, item.problem, field))
        else:
            found.append(field_flags.refused_flag(item.problem, field))
    return list(dict.fromkeys(found))


def by_line(job: Job, problem: Problem, field: str) -> Problem:
    """A refusal of the server by the line of the file that has the field, or the nearest one around it."""
    return Problem(problem.code, f"{job.where(tuple(field.split('.')))}: {problem.what}", problem.fix)


def _submitted(client: Client, kind: str, body: Mapping[str, Any]) -> Workload:
    """Created once: if the answer is lost on the way, the request is repeated under the same key."""
    key = new_key()
    try:
        return client.submit(Submission(kind, body), key)
    except Unreachable as error:
        if not error.connected:
            raise
        return client.submit(Submission(kind, body), key)


def _hint(options: GlobalOptions, asked: Mapping[str, Any]) -> None:
    """A hint at `--workdir` where the command names a script of the current folder."""
    if asked["file"] or asked["workdir"] is not None or asked["working_dir"]:
        return
    words = [*asked["command"], *asked["args"]]
    script = next(workdir.relative_scripts(words, os.getcwd()), None)
    if script is not None and not asked["volume"] and not asked["pvc"]:
        options.warn(
            f"Note: {script} is in this folder, but the job starts in another. To upload the folder, add --workdir ."
        )


def size_text(made: Workload, leader: str) -> str:
    """Number of pods and GPUs of a distributed job; a leader, if it has one, is not counted in --workers."""
    pods, gpus = made.requested_pods.number, made.workload_requested_resources.gpu.request
    workers = pods - 1 if leader else pods
    parts = [*([f"1 {leader}"] if leader else []), f"{workers} worker{'' if workers == 1 else 's'}"]
    total = f"{pods} pod{'' if pods == 1 else 's'} ({' + '.join(parts)})"
    return f"{total}, {gpus:g} GPU{'' if gpus == 1 else 's'}"


def _say(made: Workload, size: str) -> None:
    name, project = printable(made.name), printable(made.project_name)
    click.echo(f"Job {name} submitted successfully{f': {size}' if size else ''}.")
    click.echo("You can check the status of the job by running:")
    click.echo(f"        runai describe job {name} -p {project}")


def _print(documents: Sequence[dict[str, Any]], output: str) -> None:
    if output == "json":
        show_document("json", documents[0] if len(documents) == 1 else list(documents))
        return
    click.echo("---\n".join(yaml_text(each) for each in documents), nl=False, file=sys.stdout)
