"""Password hashing, in threads of its own.

A hash takes 64 MiB and a core for a tenth of a second, on purpose. Three threads hash, each with a short queue; when it
is full, callers are refused and memory stays bounded. One thread is for sign-ins from any address, one for sign-ins
from known addresses, so that attackers cannot block those, and one for signed-in callers who set a password.
"""

from __future__ import annotations

import asyncio
import secrets
import string
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError, VerifyMismatchError

from fairpool.control.refusal import Refused, refused

T = TypeVar("T")

WAITING_MAX = 32
"""For one thread. The last caller waits about three seconds."""
RETRY_S = 2
PASSWORD_LETTERS = string.ascii_letters + string.digits
PASSWORD_LENGTH = 16
"""95 bits."""
NO_PASSWORD = ""
"""In place of a hash: no password fits. Such an account can only be used over the Unix socket."""


def new_password() -> str:
    """A random password of letters and digits: nothing that a shell or a command could take for a flag."""
    return "".join(secrets.choice(PASSWORD_LETTERS) for _ in range(PASSWORD_LENGTH))


class Unchecked(Exception):
    """A password could not be hashed or verified."""


class Passwords:
    """Hashes and verifies passwords, a few at a time, off the event loop."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._no_password = self._hasher.hash(secrets.token_urlsafe())
        self._unknown, self._known, self._new = (_Queue(f"passwords-{name}") for name in ("any", "known", "new"))

    async def hash(self, password: str) -> str:
        """Raises `Refused` (503) when it cannot be done now."""
        return await self._new.run(lambda: self._hashed(password))

    async def fits(
        self, password_hash: str | None, password: str, begin: Callable[[], Awaitable[None]], *, is_known: bool = False
    ) -> bool:
        """Whether a password is right; takes as long for an unknown user. `begin` is called when its turn comes.

        Raises what `begin` raises, and `Refused` (503) if it cannot be verified now: that is not a wrong password.
        """
        queue = self._known if is_known else self._unknown
        fits = await queue.run(lambda: self._verify(password_hash or self._no_password, password), begin)
        return fits and bool(password_hash)

    def close(self) -> None:
        for queue in (self._unknown, self._known, self._new):
            queue.close()

    def _hashed(self, password: str) -> str:
        try:
            return self._hasher.hash(password)
        except (Argon2Error, MemoryError, RuntimeError) as error:
            raise Unchecked(str(error)) from error

    def _verify(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerifyMismatchError, InvalidHashError):
            return False
        except (Argon2Error, MemoryError, RuntimeError) as error:  # short of memory or threads
            raise Unchecked(str(error)) from error


class _Queue:
    """One thread, and a bounded number of callers who wait for it."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def run(self, work: Callable[[], T], begin: Callable[[], Awaitable[None]] | None = None) -> T:
        if self._waiting >= WAITING_MAX:
            raise too_many_sign_ins()
        self._waiting += 1
        try:
            async with self._turn:
                if begin is not None:
                    await begin()
                try:
                    return await asyncio.get_running_loop().run_in_executor(self._threads, work)
                except (Unchecked, RuntimeError) as error:  # the thread may not start
                    raise too_many_sign_ins() from error
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def too_many_sign_ins() -> Refused:
    """Too many sign-ins at once."""
    what = "the server cannot check passwords right now: too many sign-ins at once, or it is short of memory"
    refusal = refused(503, "access.busy", what, f"try again in {RETRY_S} s")
    refusal.headers["Retry-After"] = str(RETRY_S)
    return refusal
