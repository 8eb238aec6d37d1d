"""Shell completion of names: projects, jobs, nodes, templates and assets, cached for a few seconds.

Completion never reports an error: without a server nothing is suggested.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from fairpool.api.client import Client
from fairpool.api.config_directory import config_directory
from fairpool.cli.failure import Failure
from fairpool.cli.runai.configuration import Configuration
from fairpool.cli.runai.flags import GlobalOptions, KindFilter
from fairpool.cli.runai.session import Session

FRESH_S = 10.0
MOST = 500


def existing_projects(ctx: click.Context, incomplete: str) -> list[str]:
    return _beginning(ctx, "projects", incomplete, lambda client, _: [each.name for each in client.projects()])


def contexts(ctx: click.Context, incomplete: str) -> list[str]:
    try:
        known = Configuration(config_directory(ctx.ensure_object(GlobalOptions).config)).contexts()
    except Failure:
        return []
    return [name for name in sorted(known) if name.startswith(incomplete)]


def job_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _beginning(ctx, "jobs", incomplete, partial(_jobs, kind=ctx.ensure_object(GlobalOptions).kind))


def node_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _beginning(ctx, "nodes", incomplete, lambda client, _: [each.name for each in client.nodes()])


def existing_assets(ctx: click.Context, kind: str, incomplete: str) -> list[str]:
    return _beginning(ctx, kind, incomplete, lambda client, _: [each.meta.name for each in client.assets_of(kind)])


def _jobs(client: Client, project: str, kind: KindFilter) -> list[str]:
    filters = [f"projectName=={project}", "desiredPhase!=Deleted"]
    page = client.workloads(filters=filters, sort_by="createdAt", descending=True, limit=MOST)
    return [each.name for each in page.workloads if kind.includes(each.type, each.distributed_framework)]


def _beginning(ctx: click.Context, noun: str, incomplete: str, ask: Callable[[Client, str], list[str]]) -> list[str]:
    try:
        return [name for name in _names(ctx.ensure_object(GlobalOptions), noun, ask) if name.startswith(incomplete)]
    except Exception:  # whatever is wrong, a person in the middle of a line must not read about it
        return []


def _names(options: GlobalOptions, noun: str, ask: Callable[[Client, str], list[str]]) -> list[str]:
    session = Session(options)
    project = session.project() if noun == "jobs" else ""
    login = session.configuration.login(session.server)
    kind = f"{options.kind.noun} {options.kind.framework or ''}"
    key = f"{session.server} {login.user if login else ''} {noun} {project} {kind}"
    path = _cache()
    kept = _kept(path)
    known = kept.get(key)
    if known is not None and 0 <= time.time() - known[0] < FRESH_S:
        return known[1]
    with session.connected() as client:
        names = sorted(name for name in ask(client, project) if name.isprintable() and " " not in name)
    _keep(path, {each: value for each, value in kept.items() if time.time() - value[0] < FRESH_S}, key, names)
    return names


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fairpool" / "completion.json"


def _kept(path: Path) -> dict[str, tuple[float, list[str]]]:
    try:
        found = json.loads(path.read_bytes())
        return {key: (float(at), [str(name) for name in names]) for key, (at, names) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _keep(path: Path, kept: dict[str, tuple[float, list[str]]], key: str, names: list[str]) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(json.dumps(kept | {key: (time.time(), names)}))
        os.chmod(partial, 0o600)
        os.replace(partial, path)
    except OSError:
        return  # then the next TAB asks again
