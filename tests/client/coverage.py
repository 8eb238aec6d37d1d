"""The table of everything the original's client can do: `docs/reference/client-coverage.md`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tests.client.not_applicable import reason
from tests.client.original import Original

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "client-coverage.md"
HEAD = """\
# Coverage of the original's REST client

The public Python client of the original's REST API (`runapy` 1.224.0, import name `runai`) has {total} operations.
Each of them is in one of these states; `tests/client` calls them on a real platform and writes this page.

| state | operations | meaning |
|---|---|---|
| works | {works} | called meaningfully; the answer satisfies the client's own model; the effect was checked |
| refused | {refused} | understood and refused, with the server's reason |
| not applicable | {without} | it means nothing here, for the reason given |
| not yet | {missing} | none of the above |

How to use the client with Fairpool: [the API guide](../guides/api.md).
"""


def page(original: Original) -> str:
    """The whole page, from what was learnt."""
    rows = [(name, *original.operations[name], *_state(original, name)) for name in sorted(original.operations)]
    states = [state for _, _, _, state, _ in rows]
    counts = {
        "total": len(rows),
        "works": states.count("works"),
        "refused": states.count("refused"),
        "without": states.count("not applicable"),
        "missing": states.count("not yet"),
    }
    return "\n".join([HEAD.format(**counts), *_sections(rows)])


def _state(original: Original, operation: str) -> tuple[str, str]:
    if operation in original.worked:
        return "works", ""
    if operation in original.refusals:
        return "refused", original.refusals[operation]
    why = reason(operation)
    return ("not applicable", why) if why is not None else ("not yet", "")


def _sections(rows: list[tuple[str, str, str, str, str]]) -> Iterator[str]:
    for api, inside in groupby(rows, key=lambda row: row[0].partition(".")[0]):
        yield f"## {api}\n"
        yield "| operation | request | state |\n|---|---|---|"
        for name, method, path, state, why in inside:
            shown = f"{state}: {why}" if why else state
            yield f"| `{name.partition('.')[2]}` | `{method} {path}` | {shown.replace('|', '/')} |"
        yield ""
