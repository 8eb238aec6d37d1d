"""People who type `runai` and `runai-adm` in the test's own process: the same commands, no new Python for each."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from fairpool.cli.adm.main import main as runai_adm
from fairpool.cli.runai.main import main as runai
from fairpool.control.settings import FIRST_PASSWORD, FIRST_USER


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    def __contains__(self, text: str) -> bool:
        return text in self.out


@dataclass
class Typist:
    """One terminal for each person, with settings and login of their own."""

    address: str
    folder: Path

    def environment(self, person: str = "admin", **more: str) -> dict[str, str]:
        place = self.folder / person
        return {
            "FAIRPOOL_CONFIG": str(place / "config"),
            "FAIRPOOL_SERVER": self.address,
            "XDG_CACHE_HOME": str(place / "cache"),
            "COLUMNS": "",
            "NO_COLOR": "1",
            **more,
        }

    def type(self, line: str, *, person: str = "admin", stdin: str | bytes = "", **environment: str) -> Answer:
        """One line, as a person types it."""
        program, *arguments = shlex.split(line)
        command: click.Command = {"runai": runai, "runai-adm": runai_adm}[program]
        result = CliRunner().invoke(
            command, arguments, prog_name=program, input=stdin, env=self.environment(person, **environment)
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), (line, result.exc_info)
        return Answer(result.exit_code, result.stdout, result.stderr)

    def typed(self, line: str, **options: Any) -> str:
        """The same, where nothing may go wrong."""
        answer = self.type(line, **options)
        assert answer.code == 0, (line, answer)
        return answer.out

    def refused(self, line: str, **options: Any) -> str:
        """The same, where it must: what is said then."""
        answer = self.type(line, **options)
        assert answer.code == 1, (line, answer)
        assert not answer.out, (line, answer)
        return answer.err

    def log_in(self, person: str = "admin", user: str = FIRST_USER, password: str = FIRST_PASSWORD) -> None:
        assert "Logged in successfully" in self.typed(f"runai login -u {user}", stdin=f"{password}\n", person=person)
