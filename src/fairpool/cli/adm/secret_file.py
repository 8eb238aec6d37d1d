"""Files for tokens and secrets that are shown only once, readable by their owner alone."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fairpool.cli.failure import Failure, failure


class SecretFile:
    """A file for a token or secret, made before that is: one that cannot be kept would be lost.

    An existing file is replaced when the token is there, and not touched otherwise.
    """

    def __init__(self, file: Path | None, flag: str) -> None:
        self._flag = flag
        self._file = file.expanduser() if file is not None else None
        self._partial: Path | None = None

    def __enter__(self) -> SecretFile:
        if self._file is not None:
            self._partial = self._file.with_name(f".{self._file.name}.{os.getpid()}.new")
            try:
                os.close(os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
            except OSError as error:
                raise self._not_written(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._partial is not None:
            with suppress(OSError):
                self._partial.unlink(missing_ok=True)

    def keep(self, token: str) -> None:
        if self._file is None or self._partial is None:
            return
        try:
            self._partial.write_text(f"{token}\n", encoding="ascii")
            self._partial.replace(self._file)
        except OSError as error:
            raise self._not_written(error) from error

    def _not_written(self, error: OSError) -> Failure:
        what = f"{self._file} cannot be written: {(error.strerror or str(error)).lower()}"
        return failure("flag.secret_file", what, f"choose another file with {self._flag}")
