"""Keys that access tokens are signed with, in a file beside the credential key; signing and verification (ES256).

The file is in no backup: a restore begins with a new key. Of several keys the newest signs; an older one stays
published until the last token that it signed has expired. Processes that share the directory share the keys: the file
is replaced as a whole, under a lock, and read again when it has changed.

The only module that knows joserfc.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairpool.model.ids import Instant
from fairpool.model.problem import Problem

FILE = "token-keys.json"
ALGORITHM = "ES256"
KEY_NAME = "fairpool-"
"""Every key id begins with it, and the key id is the first field of a token's header: see `api/gateway.py`."""
ACCESS, ID = "at+jwt", "JWT"
"""Types of tokens (RFC 9068): an ID token says who signed in, and opens nothing."""
TOKEN_MAX = 8192
KEYS_MAX = 16


class TokenInvalid(Exception):
    """A token is not one that this installation signed for its API, or it has expired."""


class KeysUnusable(Exception):
    """The file of keys cannot be read or written, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class TokenKey:
    """One key pair. `until`: it is published until then, and signs nothing any more; None: it signs."""

    id: str
    created_at: int
    until: int | None
    private: str = field(repr=False)


class TokenKeys:
    """The keys in one directory; made when the first token is signed."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._seen: tuple[int, int, int] | None = None
        self._keys: tuple[TokenKey, ...] = ()
        self._parsed: dict[str, Any] = {}

    def published(self, now: Instant) -> tuple[TokenKey, ...]:
        """The key that signs, then those whose tokens may still be valid. Raises `KeysUnusable`."""
        return tuple(each for each in self._current(now) if each.until is None or each.until > now)

    def jwks(self, now: Instant) -> list[dict[str, Any]]:
        """The public keys (RFC 7517)."""
        return [
            {**self._key(each).as_dict(private=False), "kid": each.id, "use": "sig", "alg": ALGORITHM}
            for each in self.published(now)
        ]

    def signed(self, claims: Mapping[str, Any], now: Instant, kind: str = ACCESS) -> str:
        """A token with these claims."""
        from joserfc import jws

        key = self.published(now)[0]
        header = {"kid": key.id, "alg": ALGORITHM, "typ": kind}
        return jws.serialize_compact(header, plain_json(claims), self._key(key), algorithms=[ALGORITHM])

    def verified(self, token: str, audience: str, now: Instant) -> dict[str, Any]:
        """The claims of an access token. Raises `TokenInvalid`.

        The key is chosen by id among our own, and has one algorithm: the token has no say in how it is verified.
        """
        from joserfc import jws
        from joserfc.errors import JoseError

        header = _header(token)
        if header.get("alg") != ALGORITHM or header.get("typ") != ACCESS or "crit" in header:
            raise TokenInvalid("it is not an access token of this server")
        key = next((each for each in self.published(now) if each.id == header.get("kid")), None)
        if key is None:
            raise TokenInvalid("its key is unknown or was replaced")
        try:
            claims = json.loads(jws.deserialize_compact(token, self._key(key), algorithms=[ALGORITHM]).payload)
        except (JoseError, ValueError) as error:
            raise TokenInvalid("its signature is wrong") from error
        if claims.get("aud") != audience:
            raise TokenInvalid("it is for another audience")
        if not isinstance(claims.get("exp"), int) or claims["exp"] * 1000 <= now:
            raise TokenInvalid("it has expired")
        return dict(claims)

    def rotate(self, now: Instant, until: int | None) -> tuple[TokenKey, ...]:
        """Sign with a new key from now on. `until`: how long the present one stays published; None: it ends at once."""
        with self._locked():
            kept = [
                TokenKey(each.id, each.created_at, until if each.until is None else each.until, each.private)
                for each in self._read()
            ]
            valid = [each for each in kept if each.until is not None and each.until > now] if until is not None else []
            self._write((_new_key(now), *valid[: KEYS_MAX - 1]))
        return self.published(now)

    def _current(self, now: Instant) -> tuple[TokenKey, ...]:
        keys = self._read()
        if not keys:
            with self._locked():
                keys = self._read()
                if not keys:
                    self._write((_new_key(now),))
                    keys = self._read()
        return keys

    def _key(self, key: TokenKey) -> Any:
        from joserfc.jwk import ECKey

        if key.id not in self._parsed:
            self._parsed = {each: value for each, value in self._parsed.items() if each in {k.id for k in self._keys}}
            self._parsed[key.id] = ECKey.import_key(key.private)
        return self._parsed[key.id]

    # --- the file ---

    def _read(self) -> tuple[TokenKey, ...]:
        try:
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                self._keys = _parsed(self._path.read_bytes())
                self._seen = seen
        except FileNotFoundError:
            self._seen, self._keys = None, ()
        except (OSError, ValueError, LookupError, TypeError) as error:
            what = f"{self._path} cannot be used: {error}"
            fix = "delete the file; a new one is made, and users sign in again"
            raise KeysUnusable(Problem("token.key_file", what, fix)) from error
        return self._keys

    def _write(self, keys: tuple[TokenKey, ...]) -> None:
        said = {"id", "created_at", "until", "private"}
        content = {"keys": [{name: getattr(each, name) for name in sorted(said)} for each in keys]}
        new = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(json.dumps(content, indent=1).encode())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            what = f"{self._path} cannot be written: {error.strerror}"
            raise KeysUnusable(Problem("token.key_file", what, "free some space, or check its mode")) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time; it is held for the time of one write."""
        try:
            fd = os.open(self._path.with_name(f".{self._path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            what = f"{self._path} cannot be written: {error.strerror}"
            raise KeysUnusable(Problem("token.key_file", what, "free some space, or check its mode")) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def plain_json(claims: Mapping[str, Any]) -> bytes:
    """JSON whose base64url form is also plain base64: some clients decode a token's payload as such. Only `>`, `?`,
    `~` and bytes above 127 lead to the two digits that differ."""
    text = json.dumps(claims, ensure_ascii=True, separators=(",", ":"))
    return (
        text.replace(">", "\\u003e").replace("?", "\\u003f").replace("~", "\\u007e").replace("\x7f", "\\u007f").encode()
    )


def _header(token: str) -> dict[str, Any]:
    first = token.partition(".")[0]
    if len(token) > TOKEN_MAX or token.count(".") != 2:
        raise TokenInvalid("it is not an access token of this server")
    try:
        header = json.loads(base64.b64decode(first + "=" * (-len(first) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError) as error:
        raise TokenInvalid("it is not an access token of this server") from error
    return header if isinstance(header, dict) else {}


def _parsed(content: bytes) -> tuple[TokenKey, ...]:
    keys = [
        TokenKey(str(each["id"]), int(each["created_at"]), each["until"], str(each["private"]))
        for each in json.loads(content)["keys"]
    ]
    if not keys or keys[0].until is not None or any(not each.id.startswith(KEY_NAME) for each in keys):
        raise ValueError("it does not contain a key to sign with")
    return tuple(keys)


def _new_key(now: Instant) -> TokenKey:
    from joserfc.jwk import ECKey

    made = ECKey.generate_key("P-256", private=True)
    return TokenKey(f"{KEY_NAME}{secrets.token_hex(8)}", now, None, made.as_pem(private=True).decode())
