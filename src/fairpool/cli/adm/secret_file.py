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
        self._partial: Path | None = None

    def __enter__(self) -> SecretFile:
        if self._file is not None:
            if not self._replaces and os.path.lexists(self._file):
                raise self._exists()
            try:  # a new file with a name that others do not know: the folder may be theirs too
                handle, name = tempfile.mkstemp(prefix=f".{self._file.name}.", dir=self._file.parent)
            except OSError as error:
                raise self._not_written(error) from error
            os.close(handle)
            self._partial = Path(name)
        return self

    def __exit__(self, *_: object) -> None:
        if self._partial is not None:
            with suppress(OSError):
                self._partial.unlink(missing_ok=True)

    def print_or_name(self, noun: str, secret: str) -> None:
        """The secret itself where it was not written to a file, else where it is."""
        if self._file is None:
            click.echo(secret)
            click.echo(f"The {noun} is shown only once.", err=True)
        else:
            click.echo(f"{noun.capitalize()} written to {printable(str(self._file))}.")

    def keep(self, token: str) -> None:
        if self._file is None or self._partial is None:
            return
        try:
            self._partial.write_text(f"{token}\n", encoding="ascii")
            if self._replaces:
                self._partial.replace(self._file)
            else:
                os.link(self._partial, self._file)
        except FileExistsError as error:  # since it was looked for; the secret must not be lost
            click.echo(token)
            raise self._exists() from error
        except OSError as error:
            raise self._not_written(error) from error

    def _exists(self) -> Failure:
        fix = f"choose another file with {self._flag}, or remove this one"
        return failure("flag.secret_file", f"{printable(str(self._file))} exists already", fix)

    def _not_written(self, error: OSError) -> Failure:
        what = f"{self._file} cannot be written: {(error.strerror or str(error)).lower()}"
        return failure("flag.secret_file", what, f"choose another file with {self._flag}")
