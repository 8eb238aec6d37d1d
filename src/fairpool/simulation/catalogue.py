"""The scenarios that come with Fairpool, and how a name on the command line becomes a scenario."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from fairpool.model.problem import Problem
from fairpool.model.spelling import did_you_mean
from fairpool.simulation import scenario_file, trace_file
from fairpool.simulation.scenario import Scenario

LARGEST_BYTES = 256 * 2**20


def examples() -> dict[str, Traversable]:
    """The files that come with us, by name."""
    folder = files("fairpool.simulation").joinpath("scenarios")
    found = {each.name.removesuffix(".toml"): each for each in folder.iterdir() if each.name.endswith(".toml")}
    return dict(sorted(found.items()))


def titles() -> list[tuple[str, str]]:
    """Every example with a line about it."""
    listed = []
    for name, file in examples().items():
        scenario = scenario_file.read(file.read_text(encoding="utf-8"), name)
        assert isinstance(scenario, Scenario), f"the example {name} is broken: {scenario}"
        listed.append((name, scenario.title))
    return listed


def copied(example: str, file: Path, *, overwrite: bool) -> Problem | None:
    """Write an example to a file, to be changed."""
    known = examples()
    if example not in known:
        return _unknown(example, known)
    if file.exists() and not overwrite:
        return Problem("file.exists", f"{file} exists already", "choose another name, or pass --force")
    try:
        file.write_text(known[example].read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Problem("file.unreachable", f"{file} cannot be written: {why}", "name a file that you may write")
    return None


def find_scenario(what: str, nodes: str | None, quotas: Sequence[str]) -> Scenario | list[Problem]:
    """The example, scenario file or trace of this name."""
    path, known = Path(what), examples()
    if what in known and not path.is_file():
        return _scenario(known[what].read_text(encoding="utf-8"), what, nodes, quotas)
    if not path.is_file():
        return [_unknown(what, known)]
    try:
        if path.stat().st_size > LARGEST_BYTES:
            return [Problem("scenario.size", f"{what} is larger than any scenario", "name a scenario or a trace")]
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return [Problem("scenario.unreachable", f"{what} cannot be read: {why}", "name a file that you may read")]
    except ValueError:
        return [Problem("scenario.binary", f"{what} is not a text", "name a scenario (TOML) or a trace (CSV)")]
    if path.suffix.lower() == ".csv":
        trace = trace_file.read(text, path.stem, nodes, quotas)
        return trace if isinstance(trace, Scenario) else _in_file(what, trace)
    scenario = _scenario(text, path.stem, nodes, quotas)
    return scenario if isinstance(scenario, Scenario) else _in_file(what, scenario)


def _scenario(text: str, name: str, nodes: str | None, quotas: Sequence[str]) -> Scenario | list[Problem]:
    if nodes is not None or quotas:
        fix = "change it in the file, or leave the flags out"
        return [Problem("scenario.flags", "--nodes and --quota apply to traces; a scenario defines its own", fix)]
    return scenario_file.read(text, name)


def _in_file(file: str, problems: Sequence[Problem]) -> list[Problem]:
    return [Problem(each.code, f"{file}: {each.what}", each.fix) for each in problems]


def _unknown(what: str, known: Collection[str]) -> Problem:
    looks_like_a_file = "/" in what or what.endswith((".toml", ".csv"))
    if looks_like_a_file:
        fix = "name an existing scenario (.toml) or trace (.csv); --list shows the built-in examples"
        return Problem("scenario.no_file", f"there is no file {what}", fix)
    fix = did_you_mean(what, known, f"there are: {', '.join(known)}; or name a file")
    return Problem("scenario.unknown", f"there is no example {what!r}", fix)
