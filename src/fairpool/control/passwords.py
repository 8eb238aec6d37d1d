"""Passwords as slow hashes, a few at a time and off the event loop."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

HASHES_AT_ONCE = 2  # each takes 64 MiB and a core for a tenth of a second


class Passwords:
    """Slow hashes, a few at a time and off the event loop."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._gate = asyncio.Semaphore(HASHES_AT_ONCE)
        self._nobody = self._hasher.hash(secrets.token_urlsafe())

    async def hash(self, password: str) -> str:
        async with self._gate:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def fits(self, password_hash: str | None, password: str, begin: Callable[[], None]) -> bool:
        """Takes as long for a user who does not exist. `begin` is called when its turn has come, and may refuse."""
        async with self._gate:
            begin()
            return await asyncio.to_thread(self._verify, password_hash or self._nobody, password) and bool(
                password_hash
            )

    def _verify(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return False
