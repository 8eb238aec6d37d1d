"""Configuration files of `runai`: contexts, the server, and for each server the default project and the login.

Two files in one folder: `config.json` to read and edit, `credentials.json` readable by its owner alone. A token is kept
under the address of its server and is never sent to another.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairpool.api.server_address import server_address
from fairpool.cli.failure import failure, meant

DEFAULT_SERVER = "http://127.0.0.1:8080"
ANY_ADDRESS = frozenset({"", "0.0.0.0", "::", "[::]"})
FOLDER_MODE = 0o700
SECRET_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Login:
    """The login to one server."""

    user: str
    access_token: str
    refresh_token: str = ""
    expires_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Context:
    """A control plane by a name of the user's own, with a default project and cluster."""

    name: str
    server: str
    project: str = ""
    cluster: str = ""


def address(text: str) -> str:
    """A normalized address: with a scheme, without a slash at the end."""
    full = server_address(text)
    if full is None:
        raise failure("server.address", f"{text!r} is not a valid server address", "write http://HOST:PORT")
    return full


def listening_here() -> str | None:
    """Where `fairpool up` listens if `FAIRPOOL_LISTEN` is set: one setting for the server and for `runai`."""
    text = os.environ.get("FAIRPOOL_LISTEN", "").strip()
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = ("", port) if port.isdecimal() else (port, "8080")
    if not port.isdecimal() or int(port) == 0:  # 0 is any free port, not known in advance
        return None
    return f"http://{'127.0.0.1' if host in ANY_ADDRESS else host}:{port}"


class Configuration:
    """The two files of one folder."""

    def __init__(self, place: Path) -> None:
        self.place = place

    # --- settings ---

    def server(self, given: str | None = None) -> str:
        """The first of: `--server`, `FAIRPOOL_SERVER`, `FAIRPOOL_LISTEN`, the server of the last login, the default."""
        chosen = given or os.environ.get("FAIRPOOL_SERVER") or listening_here() or self._settings().get("server")
        return address(str(chosen or DEFAULT_SERVER))

    def set_server(self, server: str) -> str:
        """Use this server from now on. The context that was in use is left, unless it is of this server: its name."""
        with self.locked():
            settings = self._settings() | {"server": server}
            left = self.current_context()
            if left is None or left.server == server:
                self._write("config.json", settings)
                return ""
            self._write("config.json", {name: value for name, value in settings.items() if name != "context"})
            return left.name

    # --- contexts ---

    def contexts(self) -> dict[str, Context]:
        """By name. An entry that cannot be read is left out."""
        known = self._settings().get("contexts")
        found = {}
        for name, said in known.items() if isinstance(known, dict) else ():
            if isinstance(said, dict) and isinstance(said.get("server"), str):
                texts = {noun: str(said[noun]) for noun in ("project", "cluster") if isinstance(said.get(noun), str)}
                found[name] = Context(name, said["server"], **texts)
        return found

    def current_context(self) -> Context | None:
        """The one that was chosen with `use`, if it is still there."""
        return self.contexts().get(str(self._settings().get("context")))

    def context(self, given: str | None, server: str | None) -> Context | None:
        """The first of: none with `--server`, `--context`, `FAIRPOOL_CONTEXT`, none with `FAIRPOOL_SERVER` or
        `FAIRPOOL_LISTEN`, the one in use."""
        if given and server:
            raise failure("context.and_server", "--context and --server cannot be used together", "leave one out")
        if server:
            return None
        named = given or os.environ.get("FAIRPOOL_CONTEXT")
        if named:
            return self.named_context(named)
        return None if os.environ.get("FAIRPOOL_SERVER") or listening_here() else self.current_context()

    def named_context(self, name: str) -> Context:
        """The context of this name; a failure with a hint if there is none."""
        known = self.contexts()
        if name not in known:
            fix = (
                f"add it with `runai context set {name} --server ADDRESS`"
                if known
                else "see `runai context set --help`"
            )
            raise failure("context.unknown", f"there is no context {name}", fix, hint=meant(name, known))
        return known[name]

    def set_context(self, context: Context, *, use: bool = False) -> None:
        """Add it, or replace the one of its name."""
        with self.locked():
            self._set_context(context, use=use)

    def _set_context(self, context: Context, *, use: bool) -> None:
        settings = self._settings()
        known = settings.get("contexts")
        said = {name: value for name, value in asdict(context).items() if name != "name" and value}
        chosen = {"context": context.name} if use else {}
        others = known if isinstance(known, dict) else {}
        self._write("config.json", settings | {"contexts": others | {context.name: said}} | chosen)

    def use_context(self, name: str) -> None:
        with self.locked():
            self._set_context(self.named_context(name), use=True)

    def delete_context(self, name: str) -> None:
        with self.locked():
            settings = self._settings()
            settings["contexts"].pop(name, None)
            if settings.get("context") == name:
                del settings["context"]
            self._write("config.json", settings)

    # --- defaults of a server ---

    def default(self, noun: str, server: str) -> str | None:
        """The default `project` or `cluster` at a server."""
        known = self._settings().get(f"{noun}s")
        value = known.get(server) if isinstance(known, dict) else None
        return value if isinstance(value, str) and value else None

    def set_default(self, noun: str, server: str, name: str) -> None:
        with self.locked():
            settings = self._settings()
            known = settings.get(f"{noun}s")
            chosen = (known if isinstance(known, dict) else {}) | {server: name}
            self._write("config.json", settings | {f"{noun}s": chosen})

    def socket(self, server: str) -> Path | None:
        """The Unix socket at which a server on this machine can be reached too, if one is known."""
        known = self._settings().get("sockets")
        value = known.get(server) if isinstance(known, dict) else None
        return Path(value) if isinstance(value, str) and value else None

    def set_socket(self, server: str, place: str) -> None:
        with self.locked():
            settings = self._settings()
            known = settings.get("sockets")
            others = {name: each for name, each in known.items() if each != place} if isinstance(known, dict) else {}
            self._write("config.json", settings | {"sockets": others | {server: place}})

    # --- logins ---

    def login(self, server: str) -> Login | None:
        said = self._read("credentials.json").get(server)
        try:
            return Login(**said) if isinstance(said, dict) else None
        except TypeError:
            return None  # of another release: sign in again

    def set_login(self, server: str, login: Login) -> None:
        with self.locked():
            self._write("credentials.json", self._read("credentials.json") | {server: asdict(login)})

    def forget_login(self, server: str) -> bool:
        """Whether there was one."""
        with self.locked():
            known = self._read("credentials.json")
            was_there = known.pop(server, None) is not None
            if was_there:
                self._write("credentials.json", known)
            return was_there

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A lock between commands: a refresh token can be used only once."""
        self._make_folder()
        descriptor = os.open(self.place / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, SECRET_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def replace_login(self, server: str, login: Login) -> None:
        """The same as `set_login`, for a caller that holds the lock."""
        self._write("credentials.json", self._read("credentials.json") | {server: asdict(login)})

    # --- files ---

    def _settings(self) -> dict[str, Any]:
        return self._read("config.json")

    def _read(self, name: str) -> dict[str, Any]:
        path = self.place / name
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (NotADirectoryError, PermissionError) as error:
            fix = "choose another folder with FAIRPOOL_CONFIG"
            raise failure("config.unreadable", f"{path} cannot be read", fix) from error
        except (ValueError, RecursionError) as error:  # the latter for thousands of nested lists
            raise failure("config.not_json", f"{path} is not JSON", "fix or delete the file") from error
        return found if isinstance(found, dict) else {}

    def _write(self, name: str, document: dict[str, Any]) -> None:
        """Atomically, and never readable by other users."""
        self._make_folder()
        descriptor, path = tempfile.mkstemp(prefix=f".{name}.", dir=self.place)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=2, sort_keys=True)
                file.write("\n")
            os.chmod(path, SECRET_MODE)
            os.replace(path, self.place / name)
        except OSError:
            with suppress(OSError):
                os.unlink(path)
            raise

    def _make_folder(self) -> None:
        try:
            self.place.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            fix = "choose another folder with FAIRPOOL_CONFIG"
            raise failure("config.no_folder", f"{self.place} cannot be created: {error.strerror}", fix) from error
