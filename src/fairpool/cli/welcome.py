"""What `fairpool up` does for the user who typed it: signs `runai` in, and prints a link for the browser.

The token comes over the admin socket, which only the owner can open, and goes into the configuration of `runai`, which
only the owner can read. The link is printed and not stored.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpool.api.config_directory import config_directory
from fairpool.cli.failure import Failure
from fairpool.cli.runai.configuration import ANY_ADDRESS, Configuration, Login
from fairpool.model.problem import Problem
from fairpool.platform.address import Address
from fairpool.platform.data_directory import DataDirectory

HELLO = "submit hello -i python -g 0.5 -- python -c 'print(\"hello\")'"


@dataclass(frozen=True, slots=True)
class LocalUser:
    """The user at the terminal: their configuration of `runai`, and the address of this platform."""

    data_directory: DataDirectory
    address: str

    @property
    def server(self) -> str:
        """The address as `runai` uses it: one that listens everywhere is reached here at 127.0.0.1."""
        scheme, _, place = self.address.partition("://")
        host, _, port = place.rpartition(":")
        return f"{scheme}://127.0.0.1:{port}" if host in ANY_ADDRESS else self.address

    def question(self) -> dict[str, Any]:
        """The question to the platform, with the tokens that `runai` has."""
        configuration = Configuration(config_directory())
        try:
            login = configuration.login(self.server)
            project = configuration.default("project", self.server)
        except Failure:
            login, project = None, None
        holding = [login.access_token, login.refresh_token] if login is not None else []
        return {"holding": holding, "project": project or ""}

    def keep(self, answer: Mapping[str, Any], now_s: float) -> str:
        """Sign `runai` in; returns why that failed, or an empty text."""
        configuration, tokens = Configuration(config_directory()), answer["tokens"]
        try:
            if tokens is not None:
                expires_at = now_s + tokens["expires_in"]
                login = Login(answer["user"], tokens["access_token"], tokens["refresh_token"], expires_at)
                configuration.set_login(self.server, login)
            configuration.set_server(self.server)
            configuration.set_socket(self.server, str(self.data_directory.api_socket))
            if answer["project"]:
                configuration.set_default("project", self.server, answer["project"])
        except Failure as failed:
            return str(failed)
        except OSError as error:
            return f"{config_directory()} cannot be written: {(error.strerror or str(error)).lower()}"
        return ""

    def lines(self, answer: Mapping[str, Any] | Problem, error: str = "") -> Iterator[str]:
        """What is printed about the login."""
        if isinstance(answer, Problem) or error:
            said = f"{answer.what}: {answer.fix}" if isinstance(answer, Problem) else error
            yield f"Login    runai is not signed in: {said}"
            return
        project = f", project {answer['project']}" if answer["project"] else ""
        yield f"Login    runai is signed in as {answer['user']}{project}"
        if answer["must_change_password"]:
            change = f"{here('runai')} password"
            yield f"         Its password was set by an administrator and must be changed first: {change}"
        if answer["first_password_ignored"]:
            yield f"warning: {answer['user']} already has a password, so --first-password-file was ignored"

    def to_open(self, answer: Mapping[str, Any], *, with_link: bool) -> Iterator[str]:
        """Where the web UI is: the last that is printed."""
        if with_link:
            yield f"Open the web UI with this link, which works once, for 10 minutes (later: {self.server}):"
            yield f"  {self.server}{answer['link']}"
        else:
            yield f"Open the web UI at {self.server}; for a link that signs you in: {here('fairpool')} up --detach"


def to_try() -> Iterator[str]:
    """Two commands to try."""
    yield "Try it:"
    yield f"  {here('runai')} {HELLO}"
    yield f"  {here('runai')} list"


def to_join(server: str) -> Iterator[str]:
    """How to add a cluster to a control plane."""
    yield "Add a cluster, if there is none yet:"
    yield f"  {here('runai-adm')} cluster create NAME --token-file FILE"
    yield f"  {here('fairpool')} cluster --control {server} --token-file FILE"


def here(program: str) -> str:
    """How to call a command: by its name if the shell finds it, else by its path."""
    own = Path(sys.executable).parent / program
    found = shutil.which(program)
    if found is not None and Path(found).resolve() == own.resolve():
        return program
    if not own.exists():
        return program
    near = os.path.relpath(own)
    return str(own) if near.startswith("..") else near


def shown_addresses(address: Address, gateway: str, data_directory: DataDirectory) -> Iterator[str]:
    """Where everything is."""
    yield f"Address  {address.url}"
    yield f"Gateway  {gateway}  (web tools in jobs)"
    yield f"Data     {data_directory.root}"
    yield f"Config   {config_directory()}  (runai)"
