"""Every command and every piece of Python in the guides runs, and prints what the guide says it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairpool import __version__
from fairpool.cli.main import main

README = Path(__file__).parents[2] / "README.md"
GUIDES = sorted((Path(__file__).parents[2] / "docs" / "guides").glob("*.md"))


def blocks(guide: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", guide.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_commands_of_a_guide_run(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(guide, "console"):
        for typed, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            program, *arguments = shlex.split(typed)
            assert program == "fairpool", typed
            result = CliRunner().invoke(main, arguments, prog_name="fairpool")
            assert result.exit_code == 0, (typed, result.output)
            assert not shown or result.stdout == shown.replace("0.1.0.dev0", __version__), typed


@pytest.mark.parametrize("guide", [*GUIDES, README], ids=lambda guide: guide.stem)
def test_python_of_a_guide_runs(guide: Path) -> None:
    for block in blocks(guide, "python"):
        exec(compile(block, str(guide), "exec"), {})
