"""Commands in the guide for a company exist, with all their flags and arguments."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from fairpool.cli.adm.main import main as runai_adm
from fairpool.cli.main import main as fairpool
from fairpool.cli.runai.main import main as runai
from fairpool.platform.database_location import problem_with_location

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PROGRAMS: dict[str, click.Command] = {"fairpool": fairpool, "runai": runai, "runai-adm": runai_adm}
LINES = sorted(
    {
        line
        for page in ("company.md", "postgresql.md")
        for line in (GUIDES / page).read_text(encoding="utf-8").splitlines()
        if line.split(" ")[0] in PROGRAMS and " " in line
    }
)


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_guide_exists(line: str) -> None:
    name, *words = shlex.split(line)
    command, path = PROGRAMS[name], [name]
    context = click.Context(command, info_name=name)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, f"there is no {' '.join((*path, words[0]))}"
        command = found
        path.append(words.pop(0))
        context = click.Context(command, info_name=path[-1], parent=context)
    _, left, _ = command.make_parser(context).parse_args(words)
    assert left == [], f"{' '.join(path)} does not take {left}"


def test_addresses_of_databases_in_the_guide_can_be_used() -> None:
    text = (GUIDES / "company.md").read_text(encoding="utf-8")
    found = re.findall(r"postgresql://[^\s?]+", text)
    assert found
    assert [problem_with_location(each) for each in found] == [None] * len(found)
