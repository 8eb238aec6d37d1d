"""Files for tokens and secrets that are shown only once, readable by their owner alone."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from fairpool.cli.failure import Failure, failure
from fairpool.cli.screen import printable


class SecretFile:
    """A file for a token or secret, made before that is: one that cannot be kept would be lost.

    A new secret of the same account replaces the file when it is there (`replaces`). That of a new account does not:
    the file may hold the secret of another one.
    """

    def __init__(self, file: Path | None, flag: str, *, replaces: bool = False) -> None:
        self._flag, self._replaces = flag, replaces
        self._file = file.expanduser() if file is not None else None
        self._made: tuple[int, Path] | None = None
        """A file that we made, open, until the secret is in it."""

    def __enter__(self) -> SecretFile:
        if self._file is not None:
            try:
                self._made = self._new_file(self._file)
            except FileExistsError as error:
                fix = f"choose another file with {self._flag}, or remove this one"
                raise failure("flag.secret_file", f"{printable(str(self._file))} exists already", fix) from error
            except OSError as error:
                raise self._not_written(error) from error
        return self

    def _new_file(self, file: Path) -> tuple[int, Path]:
        if self._replaces:  # under a name that others do not know: the folder may be theirs too
            handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
            return handle, Path(name)
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), file

    def __exit__(self, *_: object) -> None:
        if self._made is not None:
            handle, path = self._made
            os.close(handle)
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def print_or_name(self, noun: str, secret: str) -> None:
        """The secret itself where it was not written to a file, else where it is."""
        if self._file is None:
            click.echo(secret)
            click.echo(f"The {noun} is shown only once.", err=True)
        else:
            click.echo(f"{noun.capitalize()} written to {printable(str(self._file))}.")

    def keep(self, token: str) -> None:
        if self._file is None or self._made is None:
            return
        handle, path = self._made
        try:
            os.write(handle, f"{token}\n".encode("ascii"))
            os.fsync(handle)
            if self._replaces:
                path.replace(self._file)
        except OSError as error:  # the disk is full, say; the secret must not be lost
            click.echo(token)
            raise self._not_written(error) from error
        os.close(handle)
        self._made = None

    def _not_written(self, error: OSError) -> Failure:
        what = f"{self._file} cannot be written: {(error.strerror or str(error)).lower()}"
        return failure("flag.secret_file", what, f"choose another file with {self._flag}")
