"""Flags of a server that runs already."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairpool.cli.control import control
from fairpool.cli.given_flags import differing, given_flags, record
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.directory_lock import LockHolder

STARTED = ("--listen", "0.0.0.0:8443", "--tls-key", "key.pem", "--host-name", "a.test", "--host-name", "b.test")


@pytest.mark.parametrize(
    ("second", "named"),
    [
        ((), []),
        (STARTED, []),
        (("--log-level", "info"), []),
        (("--log-level", "debug", "--listen", "0.0.0.0:8443"), ["--log-level"]),
        (("--host-name", "a.test"), ["--host-name"]),
        (("--tls-key", "/elsewhere/key.pem", "--tls-cert", "cert.pem"), ["--tls-cert", "--tls-key"]),
    ],
)
def test_flags_that_a_running_server_was_not_started_with_are_named(
    tmp_path: Path, second: tuple[str, ...], named: list[str]
) -> None:
    data_directory, holder = DataDirectory(tmp_path), LockHolder(pid=os.getpid())
    record(data_directory, given_flags(control.make_context("control", list(STARTED))))
    asked = given_flags(control.make_context("control", list(second)))
    assert differing(data_directory, holder, asked) == named
    assert differing(data_directory, LockHolder(pid=1), asked) == [*asked.given], "the file is of another process"


def test_what_is_handed_on_has_no_secrets_and_does_not_depend_on_the_folder() -> None:
    database = ("--database", "postgresql://u:secret@h/d", "--data", "here")
    words = given_flags(control.make_context("control", [*STARTED, *database])).words
    assert words[:2] == ["--listen", "0.0.0.0:8443"]
    assert words[-1] == str(Path("key.pem").absolute())
    assert not {"--database", "--data"} & set(words)
