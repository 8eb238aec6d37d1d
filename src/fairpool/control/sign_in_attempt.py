"""One attempt to sign in: counted in the database, so that all processes that share it count alike."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from fairpool.control.attempts import Attempts, Names, names_of, pair_of
from fairpool.control.guard import PEER_UID
from fairpool.control.passwords import Passwords
from fairpool.control.plane import MINUTE_MS, Plane
from fairpool.control.refusal import Refused, refused
from fairpool.control.store import attempts as store
from fairpool.control.store.database import Connection
from fairpool.control.tokens import address_of
from fairpool.model.ids import Instant

TOO_MANY = 429
UNAVAILABLE = 503


class SignInAttempt:
    """It counts as failed before the password is checked, so that concurrent attempts count."""

    def __init__(self, request: Request, plane: Plane, kind: str, name: str) -> None:
        self._plane = plane
        self._names = names_of(kind, name, address_of(request))
        self._is_own = PEER_UID in request.scope
        """Attempts of others never delay the machine's own user."""
        self._is_known = self._has_begun = False
        self._delay_s = 0.0

    def check(self, connection: Connection) -> None:
        """Refuse an attempt that comes too soon."""
        attempts = self._recalled(connection)
        self._is_known = attempts.is_known(self._names)
        self._refuse_if(attempts.wait_s(self._names, self._plane.now()))

    def begin(self, connection: Connection) -> None:
        """Count it, when its turn has come: others may have failed while it waited."""
        attempts = self._recalled(connection)
        self._refuse_if(attempts.begin(self._names, self._plane.now()))
        self._delay_s = attempts.delay_s(self._names)
        save_counts(connection, self._names, attempts)
        self._has_begun = True

    async def fits(self, passwords: Passwords, password_hash: str | None, password: str) -> bool:
        """Whether the password is right; one that could not be checked is not a failure. After `check`."""

        async def begin() -> None:
            await self._plane.write(self.begin)

        try:
            return await passwords.fits(password_hash, password, begin, is_known=self._is_known)
        except Refused as refusal:
            if self._has_begun and refusal.status == UNAVAILABLE:
                await self._plane.write(self._undo)
            raise

    async def failed(self) -> None:
        """Delay the answer to a wrong password from a known address, where later attempts are not refused."""
        await asyncio.sleep(self._delay_s)

    def succeeded(self, connection: Connection) -> None:
        attempts = self._recalled(connection)
        attempts.succeeded(self._names)
        save_counts(connection, self._names, attempts)
        store.know(connection, pair_of(self._names), self._plane.now())

    def _undo(self, connection: Connection) -> None:
        attempts = self._recalled(connection)
        attempts.undo(self._names)
        save_counts(connection, self._names, attempts)

    def _recalled(self, connection: Connection) -> Attempts:
        attempts = recalled(connection, self._names)
        if self._is_own:
            attempts.know(self._names)
        return attempts

    def _refuse_if(self, wait_s: int) -> None:
        if wait_s:
            what = f"too many wrong passwords: the next attempt is accepted in {wait_s} s"
            refusal = refused(TOO_MANY, "access.too_many_attempts", what, "wait, then try again")
            refusal.headers["Retry-After"] = str(wait_s)
            refusal.is_denial = True
            raise refusal


def recalled(connection: Connection, names: Names) -> Attempts:
    """What is known of these names."""
    pair = pair_of(names)
    return Attempts(store.counts(connection, names), {pair} if store.is_known(connection, pair) else ())


def save_counts(connection: Connection, names: Names, attempts: Attempts) -> None:
    store.set_counts(connection, {name: attempts.failures.get(name) for name in names})


def is_over_rate(connection: Connection, name: str, a_minute: int, now: Instant) -> bool:
    """Whether there were too many of these in this minute; counts this one otherwise."""
    name = f"{name} in minute {now // MINUTE_MS}"
    count, _ = store.counts(connection, [name]).get(name, (0, now))
    if count < a_minute:
        store.set_counts(connection, {name: (count + 1, now)})
    return count >= a_minute
