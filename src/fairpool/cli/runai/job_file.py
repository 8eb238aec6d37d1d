"""Job files: `runai submit -f job.yaml`. The format is what `--dry-run` prints; YAML or JSON, one job or several.

Strict: what is not known is refused with its line and what may have been meant. Anchors and aliases are refused too: a
few lines of them can stand for more than fits into memory. It loads YAML and the models of the API, so it is imported
only for a job file or a dry run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

import yaml
from yaml import Node

from fairpool.api import workload_spec as wire
from fairpool.api.wire import Request, ValidationError
from fairpool.api.workload_spec import SubmitAny
from fairpool.model.problem import Problem
from fairpool.model.spelling import did_you_mean

TEXT_MAX = 1 << 20
JOBS_MAX = 100
DEPTH_MAX = 32
KINDS = ("Training", "Workspace", "Distributed", "Inference")
OWN_KEYS = ("kind", "workdir", "exclude")
"""Keys that are for this command and not for the server."""
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
FLOAT = re.compile(r"[-+]?[0-9]{1,32}\.[0-9]{0,32}([eE][-+]?[0-9]{1,3})?")
NULLS = ("", "~", "null", "Null", "NULL")

Place = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a file."""

    body: dict[str, Any]
    """What the server is sent, in its words."""
    source: str
    kind: str = "Training"
    workdir: str | None = None
    exclude: tuple[str, ...] = ()
    lines: Mapping[Place, int] = field(default_factory=dict)

    def where(self, place: Place) -> str:
        """`job.yaml, line 7`, of the nearest known place."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return f"{self.source}, line {self.lines[place[:length]]}"
        return self.source


def read(text: str, source: str) -> list[Job] | list[Problem]:
    """Every job in a file, or all syntax errors."""
    if len(text) > TEXT_MAX:
        return [Problem("file.too_large", f"{source} is larger than {TEXT_MAX >> 20} MiB", "split it")]
    if text.lstrip()[:1] in ("{", "["):
        text = text.replace("\t", " ")  # JSON may be indented by them, and YAML must not; in its texts they are \t
    problems: list[Problem] = []
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=_loader()) if node is not None]
        jobs = [job for node in nodes for job in _jobs(node, source, problems)]
    except yaml.YAMLError as error:
        return [_not_yaml(error, source)]
    if not jobs and not problems:
        problems.append(Problem("file.empty", f"{source} contains no job", "see docs/reference/job-file.md"))
    if len(jobs) > JOBS_MAX:
        problems.append(
            Problem(
                "file.too_many", f"{source} contains {len(jobs)} jobs", f"split it: at most {JOBS_MAX} jobs per file"
            )
        )
    return problems or jobs


def mappings(text: str, source: str, noun: str, fix: str) -> list[tuple[dict[str, Any], Mapping[Place, int]] | Problem]:
    """The documents of a file of another kind, each with the line of every value; or all syntax errors."""
    if len(text) > TEXT_MAX:
        return [Problem("file.too_large", f"{source} is larger than {TEXT_MAX >> 20} MiB", "split it")]
    problems: list[Problem] = []
    found: list[tuple[dict[str, Any], Mapping[Place, int]] | Problem] = []
    try:
        for node in yaml.compose_all(text, Loader=_loader()):
            lines: dict[Place, int] = {}
            body = _value(node, (), source, lines, problems) if node is not None else None
            if isinstance(body, dict):
                found.append((body, lines))
            elif body is not None:
                problems.append(Problem("file.not_a_mapping", f"{source}: {noun} must be a mapping of keys", fix))
    except yaml.YAMLError as error:
        return [_not_yaml(error, source)]
    return [*problems] or found or [Problem("file.empty", f"{source} contains nothing", fix)]


def checked(job: Job) -> dict[str, Any] | list[Problem]:
    """What is sent for a job, or all that is wrong with it, each with its line."""
    model = _model(job.kind)
    try:
        return in_order(job.body, job.kind)
    except ValidationError as error:
        return [_problem(job, model, each) for each in error.errors(include_url=False)]


def in_order(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A request with its keys as the API spells and orders them; a `ValidationError` where it does not take them."""
    return _model(kind).model_validate(body).model_dump(mode="json", by_alias=True, exclude_unset=True)


def _model(kind: str) -> type[SubmitAny]:
    models: dict[str, type[SubmitAny]] = {
        "Workspace": wire.SubmitWorkspace,
        "Training": wire.SubmitTraining,
        "Distributed": wire.SubmitDistributed,
        "Inference": wire.SubmitInference,
    }
    return models[kind]


# --- from text to values -----------------------------------------------------------------------------------------


def _loader() -> Any:
    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML carries no types
        """A YAML loader without anchors, aliases and tags."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise yaml.MarkedYAMLError(
                    problem="anchors and aliases are not supported", problem_mark=event.start_mark
                )
            if getattr(event, "tag", None) is not None:
                raise yaml.MarkedYAMLError(problem="tags are not supported", problem_mark=event.start_mark)
            self.depth += 1
            if self.depth > DEPTH_MAX:
                raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=event.start_mark)
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

    return Loader


def _not_yaml(error: Exception, source: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    where = f"{source}, line {mark.line + 1}" if mark is not None else source
    what = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return Problem("file.not_yaml", f"{where}: {what}", "write YAML or JSON, see docs/reference/job-file.md")


def _jobs(node: Node, source: str, problems: list[Problem]) -> Iterator[Job]:
    """The job of one document, or those of a list."""
    if isinstance(node, yaml.SequenceNode):
        for inner in node.value:
            yield from _jobs(inner, source, problems)
        return
    if isinstance(node, yaml.ScalarNode) and node.value in NULLS:
        return
    if not isinstance(node, yaml.MappingNode):
        what = f"{source}, line {node.start_mark.line + 1}: a job must be a mapping of keys to values"
        problems.append(Problem("file.not_a_job", what, "write kind, name and spec, see docs/reference/job-file.md"))
        return
    lines: dict[Place, int] = {}
    before = len(problems)
    body = _value(node, (), source, lines, problems)
    job = _job(body, source, lines, problems)
    if len(problems) == before:
        yield job


def _job(body: dict[str, Any], source: str, lines: Mapping[Place, int], problems: list[Problem]) -> Job:
    plain = Job(body={name: value for name, value in body.items() if name not in OWN_KEYS}, source=source, lines=lines)
    kind = body.get("kind", "Training")
    if kind not in KINDS:
        fix = did_you_mean(str(kind), KINDS, f"use {', '.join(KINDS)}")
        problems.append(Problem("file.kind", f"{plain.where(('kind',))}: unknown kind {kind!r}", fix))
    workdir = body.get("workdir")
    if workdir is not None and not isinstance(workdir, str):
        what = f"{plain.where(('workdir',))}: workdir must be the path of a folder"
        problems.append(Problem("file.workdir", what, "write workdir: ."))
    exclude = body.get("exclude") or []
    if not isinstance(exclude, list) or not all(isinstance(each, str) for each in exclude):
        what = f"{plain.where(('exclude',))}: exclude must be a list of patterns"
        problems.append(Problem("file.exclude", what, 'write exclude: ["*.ckpt"]'))
        exclude = []
    return Job(plain.body, source, str(kind), workdir, tuple(exclude), lines)


def _value(node: Node, place: Place, source: str, lines: dict[Place, int], problems: list[Problem]) -> Any:
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return [_value(each, (*place, number), source, lines, problems) for number, each in enumerate(node.value)]
    found: dict[str, Any] = {}
    for key_node, inner in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
        where = f"{source}, line {key_node.start_mark.line + 1}"
        if not isinstance(key, str):
            problems.append(Problem("file.key", f"{where}: a key must be text", "write KEY: VALUE"))
        elif key in found:
            problems.append(Problem("file.key_twice", f"{where}: {key} is given twice", "remove one of them"))
        else:
            found[key] = _value(inner, (*place, key), source, lines, problems)
            lines[(*place, key)] = key_node.start_mark.line + 1
    return found


def _scalar(node: Any) -> Any:
    """A string, unless it is a number, `true`, `false` or null: `no` and `1:30` are strings here."""
    text: str = node.value
    if node.style is not None:
        return _whole(text)
    match node.tag.rpartition(":")[2]:
        case "bool" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "int" if INTEGER.fullmatch(text):
            return int(text)
        case "float" if FLOAT.fullmatch(text):
            return float(text)
        case "null" if text in NULLS:
            return None
        case _:
            return _whole(text)


def _whole(text: str) -> str:
    """Surrogate pairs, as JSON writes them, joined."""
    if not any("\ud800" <= each <= "\udfff" for each in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# --- what is wrong with the values ---------------------------------------------------------------------------------


def _problem(job: Job, model: type[Request], error: Mapping[str, Any]) -> Problem:
    place: Place = tuple(error["loc"])
    known = _deepest(job, place)
    name = ".".join(str(part) for part in known) or "the job"
    where = job.where(known)
    if error["type"] == "extra_forbidden":
        keys = _keys_at(model, known[:-1])
        if len(known) == 1:
            keys = [*OWN_KEYS, *(key for key in keys if key not in HIDDEN)]
        fix = did_you_mean(str(known[-1]), keys, f"use {', '.join(keys[:12])}{', ...' if len(keys) > 12 else ''}")
        return Problem("file.unknown_key", f"{where}: unknown key {name}", fix)
    if error["type"] == "missing":
        missing = ".".join(str(part) for part in place)
        return Problem("file.missing_key", f"{where}: {missing} is missing", f"add {place[-1]}")
    message = error["msg"]
    fix = "correct the value"
    if error["type"] == "string_type" and isinstance(error["input"], int | float):
        fix = f'put it in quotes: "{str(error["input"]).lower()}"'
    return Problem("file.wrong_value", f"{where}: {name}: {message[:1].lower()}{message[1:]}", fix)


HIDDEN = ("source", "commandLine", "templateId")


def _deepest(job: Job, place: Place) -> Place:
    """The longest prefix of a place that is in the file: the names of union members are not."""
    for length in range(len(place), 0, -1):
        if place[:length] in job.lines:
            return place[:length]
    return place if place and place[0] not in job.body else ()


def _keys_at(model: type[Request], place: Sequence[int | str]) -> list[str]:
    """The valid keys at a place."""
    options: type[Request] | None = model
    for part in place:
        if options is None:
            return []
        if isinstance(part, int):
            continue
        fields = {each.alias or name: each for name, each in options.model_fields.items()}
        options = _model_in(fields[part].annotation) if part in fields else None
    return [] if options is None else [each.alias or name for name, each in options.model_fields.items()]


def _model_in(hint: Any) -> type[Request] | None:
    """The model in `Model | None` or `list[Model]`."""
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint if issubclass(hint, Request) else None
    return next((found for each in get_args(hint) if (found := _model_in(each)) is not None), None)
