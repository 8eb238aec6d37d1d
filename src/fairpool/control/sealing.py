"""Encryption of stored credentials: AES-256-GCM, with a key in a file beside the database.

The file is made when the first value is stored. It is in no backup unless that is asked for: who has a copy of the
database alone has no value. Each value is bound to the id of its credential, so that rows cannot be exchanged.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import scrypt, sha256
from pathlib import Path

from fairpool.model.problem import Problem

FILE = "secret.key"
KEY_BYTES, NONCE_BYTES, SALT_BYTES = 32, 12, 16
WRAPPED = b"fairpool sealing key in a backup"


class KeyUnusable(Exception):
    """The key cannot be read or written, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class SealingKey:
    """The key that values are encrypted with."""

    content: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """Says which key a value was encrypted with, and nothing about the key."""
        return sha256(b"fairpool sealing key\0" + self.content).hexdigest()[:16]

    def seal(self, data: Mapping[str, bytes], credential: str) -> str:
        """Encrypt the values of the credential with this id."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 15 MB that most installations never need

        plain = json.dumps({key: base64.b64encode(value).decode() for key, value in data.items()}).encode()
        nonce = secrets.token_bytes(NONCE_BYTES)
        return base64.b64encode(nonce + AESGCM(self.content).encrypt(nonce, plain, credential.encode())).decode()

    def unseal(self, sealed: str, credential: str) -> dict[str, bytes] | None:
        """The values again; None: they were not encrypted with this key, or were changed."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            raw = base64.b64decode(sealed)
            plain = AESGCM(self.content).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], credential.encode())
        except (InvalidTag, ValueError):
            return None
        return {key: base64.b64decode(value) for key, value in json.loads(plain).items()}


class KeyFile:
    """The key in the data directory; read once, made when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._key: SealingKey | None = None

    def existing(self) -> SealingKey | None:
        """None: no value was ever stored here, or the file was left out of a backup. Raises `KeyUnusable`."""
        if self._key is None:
            try:
                self._key = parsed_key(self._path.read_bytes())
            except FileNotFoundError:
                return None
            except (OSError, ValueError) as error:
                what = f"{self._path} cannot be used: {error}"
                raise KeyUnusable(Problem("credential.key_file", what, "restore the file from a copy")) from error
        return self._key

    def key(self) -> SealingKey:
        """The key, which is made if there is none. Raises `KeyUnusable`."""
        found = self.existing()
        if found is not None:
            return found
        try:
            write_key(self._path, SealingKey(secrets.token_bytes(KEY_BYTES)))
        except FileExistsError:
            pass  # another process was faster
        except OSError as error:
            what = f"{self._path} cannot be written: {error.strerror}"
            raise KeyUnusable(Problem("credential.key_file", what, "free some space, or check its mode")) from error
        made = self.existing()
        assert made is not None
        return made


def wrapped_key(key: SealingKey, passphrase: bytes) -> bytes:
    """The key, encrypted under a passphrase, for a backup."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
    return salt + nonce + AESGCM(_stretched(passphrase, salt)).encrypt(nonce, key.content, WRAPPED)


def unwrapped_key(content: bytes, passphrase: bytes) -> SealingKey | None:
    """The key again; None: the passphrase is wrong, or the content was changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce = content[:SALT_BYTES], content[SALT_BYTES : SALT_BYTES + NONCE_BYTES]
    try:
        key = AESGCM(_stretched(passphrase, salt)).decrypt(nonce, content[SALT_BYTES + NONCE_BYTES :], WRAPPED)
    except (InvalidTag, ValueError):
        return None
    return SealingKey(key) if len(key) == KEY_BYTES else None


def _stretched(passphrase: bytes, salt: bytes) -> bytes:
    return scrypt(passphrase, salt=salt, n=1 << 15, r=8, p=1, maxmem=64 << 20, dklen=KEY_BYTES)


def parsed_key(content: bytes) -> SealingKey:
    """The key in the content of its file. Raises ValueError."""
    key = bytes.fromhex(content.decode("ascii").strip())
    if len(key) != KEY_BYTES:
        raise ValueError(f"it does not contain a key of {KEY_BYTES} bytes")
    return SealingKey(key)


def write_key(path: Path, key: SealingKey) -> None:
    """On the disk when this returns, and never half. Raises OSError, `FileExistsError` if there is one."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # beside a database on a server it may be new
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(f"{key.content.hex()}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        os.link(new, path)
    finally:
        with suppress(OSError):
            new.unlink()
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
