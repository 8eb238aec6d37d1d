"""Words on a terminal: ages, escapes, columns, and what every help has."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpool.cli.adm.main import main as runai_adm
from fairpool.cli.failure import Failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.configuration import Configuration, Login, address
from fairpool.cli.runai.details import draw_mounts, mounts
from fairpool.cli.runai.flags import Group
from fairpool.cli.runai.listing import yaml_text
from fairpool.cli.runai.main import main as runai
from fairpool.cli.runai.terminal_text import HARMLESS, Harmless
from fairpool.cli.screen import Column, Screen, width_of
from fairpool.model.problem import Problem

# --- time --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (0, "0s"), (11, "11s"), (120, "2m"), (43_200, "12h"), (4 * 86_400, "4d"), (400 * 86_400, "1y")],
)
def test_ages_are_brief(seconds: float, text: str) -> None:
    assert ages.brief(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("5s", 5), ("2m", 120), ("3h", 10_800), ("1h30m", 5400), ("1.5h", 5400), ("1d", 86_400)],
)
def test_lengths_of_time_are_read_as_go_writes_them(text: str, seconds: int) -> None:
    assert ages.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "-1s", "1 h", "1w", "5s5"])
def test_what_is_no_length_of_time_says_so(text: str) -> None:
    assert isinstance(ages.seconds(text), Problem)


@given(st.integers(0, 10**8))
def test_what_is_written_is_read_back(seconds: int) -> None:
    assert ages.seconds(ages.exact(seconds)) == seconds


def test_clocks_count_hours_without_end() -> None:
    assert (ages.clock(700), ages.clock(360_000)) == ("00:11:40", "100:00:00")


# --- escapes -----------------------------------------------------------------------------------------------------


def cleaned(*chunks: bytes) -> str:
    harmless = Harmless()
    return "".join([*(harmless.feed(chunk) for chunk in chunks), harmless.finish()])


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"plain\n", "plain\n"),
        (b"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        (b"50%\r\x1b[K60%", "50%\r\x1b[K60%"),
        (b"a\x1b]0;title\x07b", "ab"),
        (b"a\x1b]52;c;AAAA\x1b\\b", "ab"),
        (b"a\x1b[2J\x1b[1;1Hb", "ab"),
        (b"a\x1b[6nb\x1bcc", "abc"),
        (b"a\x1bP+q544e\x1b\\b", "ab"),
        ("a\x9b6nb\x9d0;t\x9cc".encode(), "abc"),
        (b"a\x07\x08\x00b", "ab"),
        ("\u202eabc".encode(), "abc"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        (b"end\x1b", "end"),
        (b"end\x1b]0;never", "end]0;never"),
    ],
)
def test_a_log_cannot_command_a_terminal(written: bytes, shown: str) -> None:
    assert cleaned(written) == shown
    assert cleaned(*(bytes([byte]) for byte in written)) == shown, "whatever pieces it comes in"


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_nothing_but_colours_ever_passes(chunks: list[bytes]) -> None:
    rest = HARMLESS.sub("", cleaned(*chunks))
    assert "\x1b" not in rest
    assert not any(each < " " and each not in "\n\r\t" for each in rest)
    assert not any("\x7f" <= each <= "\x9f" for each in rest)


def test_a_sequence_without_an_end_is_not_kept_for_ever() -> None:
    harmless = Harmless()
    shown = harmless.feed(b"\x1b]0;" + b"x" * 100_000)
    assert "x" * 1000 in shown


@pytest.mark.parametrize("opener", ["\x90", "\x98", "\x9b", "\x9d", "\x1b]", "\x1b[", "\x9d\x1b", "\x9b1;"])
def test_a_log_of_nothing_but_openers_is_read_in_linear_time(opener: str) -> None:
    """A megabyte of them; if each were looked at to the end of the log, this would take an hour."""
    cleaned((opener * (1_000_000 // len(opener))).encode())


def test_yaml_shows_no_character_that_could_disguise_a_name() -> None:
    assert yaml_text({"name": "a\u202eb"}) == 'name: "a\\u202Eb"\n'
    assert yaml_text({"name": "日本"}) == "name: 日本\n"


# --- columns -----------------------------------------------------------------------------------------------------


def table(width: int | None, rows: list[tuple[str, str, str]]) -> list[str]:
    columns = [
        Column[tuple[str, str, str]]("NAME", lambda row: row[0]),
        Column[tuple[str, str, str]]("STATUS", lambda row: row[1], spare=1),
        Column[tuple[str, str, str]]("IMAGE", lambda row: row[2], spare=2),
    ]
    screen = Screen(width)
    screen.draw(columns, rows)
    return screen.lines


def test_columns_are_two_spaces_apart_and_lines_have_no_tail() -> None:
    assert table(None, [("a", "Running", "")]) == ["NAME  STATUS   IMAGE", "a     Running"]


def test_what_has_no_room_is_left_out_and_named() -> None:
    lines = table(20, [("a", "Running", "registry.example/long")])
    assert lines[:2] == ["NAME  STATUS", "a     Running"]
    assert " ".join(lines[2:]) == "Columns hidden to fit the terminal: IMAGE (show all with -o wide)"
    assert table(8, [("a", "Running", "")])[:2] == ["NAME", "a"]


def test_names_cannot_break_a_table() -> None:
    lines = table(None, [("a\x1b[2J\nb", "Running", "\x9b6n")])
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


def test_mounts_are_shown_with_where_they_come_from() -> None:
    storage = {
        "hostPath": [{"path": "/mnt", "mountPath": "/data", "readOnly": True}],
        "pvc": [{"claimName": "test", "path": "/tmp/pvc1mount"}],
    }
    screen = Screen()
    draw_mounts(screen, mounts({"storage": storage}))
    assert screen.lines == [
        "Mounts:",
        "SOURCE    PATH            MODE",
        "/mnt      /data           ro",
        "pvc test  /tmp/pvc1mount  rw",
    ]


def test_wide_letters_take_two_places() -> None:
    assert (width_of("abc"), width_of("漢字"), width_of("é"), width_of("e\u0301")) == (3, 4, 1, 1)


# --- configuration -----------------------------------------------------------------------------------------------


def test_secrets_are_for_one_persons_eyes(tmp_path: Path) -> None:
    kept = Configuration(tmp_path / "deep" / "config")
    kept.set_login("http://a:1", Login("ann", "token", "refresh", 5.0))
    kept.set_default("project", "http://a:1", "team-a")
    for name in ("credentials.json", "config.json"):
        assert stat.S_IMODE((kept.place / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.place.stat().st_mode) == 0o700
    assert kept.login("http://a:1") == Login("ann", "token", "refresh", 5.0)
    assert kept.login("http://b:1") is None
    assert kept.default("project", "http://b:1") is None
    assert kept.forget_login("http://a:1")
    assert "token" not in (kept.place / "credentials.json").read_text()


def test_the_server_is_the_one_that_was_named_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRPOOL_SERVER", raising=False)
    kept = Configuration(tmp_path)
    assert kept.server() == "http://127.0.0.1:8080"
    kept.set_server("http://kept:1")
    assert kept.server() == "http://kept:1"
    monkeypatch.setenv("FAIRPOOL_SERVER", "told:2/")
    assert kept.server() == "http://told:2"
    assert kept.server("https://flag") == "https://flag"


@pytest.mark.parametrize("text", ["ftp://x", "http://", "http://a b", "http://x:port", "http://x:99999"])
def test_what_is_no_address_says_so(text: str) -> None:
    with pytest.raises(Failure, match="is not a valid server address"):
        address(text)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(Failure, match="is not JSON"):
        Configuration(tmp_path).server()
    (tmp_path / "config.json").write_text(json.dumps([1]))
    assert Configuration(tmp_path).default("project", "x") is None


# --- help --------------------------------------------------------------------------------------------------------


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}")


ALL = {
    path: command
    for root, name in ((runai, "runai"), (runai_adm, "runai-adm"))
    for path, command in commands(root, name)
}


@pytest.mark.parametrize("path", ALL)
def test_every_help_fits_80_columns_and_ends_with_an_example(path: str) -> None:
    text = ALL[path].get_help(click.Context(ALL[path], info_name=path, max_content_width=80, terminal_width=80))
    last = " ".join(text.split("Example:")[-1].split())
    assert "Example:" in text
    assert "runai" in last
    assert len(last) < 110
    assert all(len(line) <= 80 for line in text.splitlines()), text


def test_the_example_of_every_command_begins_with_it() -> None:
    for path, command in ALL.items():
        example = " ".join((command.epilog or "").removeprefix("Example: ").split())
        program = path.split()[0]
        assert program in example, path


@pytest.mark.parametrize("line", ["--help", "submit --help", "list jobs --help", "version --short", "completion bash"])
def test_help_imports_nothing_heavy(line: str) -> None:
    """Help under 150 ms is a matter of what is imported; this holds on a busy machine too."""
    heavy = ("pydantic", "httpx2", "rich", "yaml", "numpy", "starlette", "sqlalchemy", "asyncio", "fairpool.api.wire")
    code = (
        "import sys; from fairpool.cli.runai.main import main\n"
        f"try: main({line.split()!r}, prog_name='runai')\n"
        "except SystemExit: pass\n"
        f"print([each for each in {heavy!r} if each in sys.modules], file=sys.stderr)"
    )
    environment = os.environ | {"COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr.strip() == "[]"
