"""Sign-in of `runai` by way of a browser: on this machine, by a copied code, or on any machine (device code).

The code that comes back works only with a secret that this process made (PKCE): those who read it from a screen, a
history or a log cannot use it.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import click

from fairpool.api.client import Client, Refused
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai.prompts import prompted
from fairpool.cli.screen import printable

if TYPE_CHECKING:
    from fairpool.api.access import TokenAnswer

WAIT_S: Final = 600.0
DONE = "<!doctype html><meta charset=utf-8><title>Fairpool</title><p>You are signed in. You can close this page."
WRONG = "<!doctype html><meta charset=utf-8><title>Fairpool</title><p>This link is not the one that runai opened."
WAITING = frozenset({"access.authorization_pending", "access.slow_down"})


class CommandSecret:
    """What this process alone knows, and what it tells of it."""

    def __init__(self) -> None:
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(16)

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()


def browser_login(client: Client) -> TokenAnswer:
    """The browser of this machine brings the code to a port that only this machine can reach."""
    secret = CommandSecret()
    with _Receiver(secret.state) as receiver:
        link = _link(client, challenge=secret.challenge, state=secret.state, port=str(receiver.server_port))
        _say("Sign in with your browser. If it does not open, use this link:", link)
        _open(link)
        code = receiver.wait(WAIT_S)
    return client.sign_in_by_code(code, secret.verifier)


def copied_login(client: Client) -> TokenAnswer:
    """For a machine without a browser: the person opens the link elsewhere and copies the code back."""
    secret = CommandSecret()
    link = _link(client, challenge=secret.challenge)
    _say("Open this link in a browser on any machine and sign in there:", link)
    code = prompted("Code", "run it in a terminal, or use `runai login --device`").strip()
    return client.sign_in_by_code(code, secret.verifier)


def device_login(client: Client, sleep: Callable[[float], None] = time.sleep) -> TokenAnswer:
    """The person approves a short code in a browser on any machine, and this process waits."""
    begun = client.begin_device_sign_in()
    _say(f"Open {begun.verification_uri} in a browser on any machine, and enter this code:", begun.user_code)
    _say("The same as one link:", begun.verification_uri_complete)
    end = time.monotonic() + begun.expires_in
    while time.monotonic() < end:
        sleep(begun.interval)
        try:
            return client.sign_in_by_device(begun.device_code)
        except Refused as refusal:
            if refusal.problems[0].code not in WAITING:
                raise Failure(list(refusal.problems)) from refusal
    raise failure("login.expired", "the code was not approved in time", "run: runai login --device")


def _say(words: str, value: str) -> None:
    """On a line of its own, to be copied whole."""
    click.echo(f"{words}\n\n  {printable(value)}\n", err=True)


def _link(client: Client, **parameters: str) -> str:
    return f"{client.address}/sign-in/command?{urlencode(parameters)}"


def _open(link: str) -> None:
    import webbrowser

    webbrowser.open(link)  # if there is none, the person has the link


class _Receiver(HTTPServer):
    """Waits for the browser that brings the code."""

    def __init__(self, state: str) -> None:
        super().__init__(("127.0.0.1", 0), _Visit)
        self.state = state
        self.code = ""

    def wait(self, seconds: float) -> str:
        end = time.monotonic() + seconds
        while not self.code:
            self.timeout = end - time.monotonic()
            if self.timeout <= 0:
                raise failure("login.expired", "the browser did not come back in time", "run: runai login --no-browser")
            self.handle_request()
        return self.code


class _Visit(BaseHTTPRequestHandler):
    """One request of a browser."""

    server: _Receiver
    timeout = 5

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        code, state = query.get("code", [""])[0], query.get("state", [""])[0]
        is_ours = bool(code) and secrets.compare_digest(state.encode(), self.server.state.encode())
        body = (DONE if is_ours else WRONG).encode()
        self.send_response(200 if is_ours else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)
        if is_ours:
            self.server.code = code

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # its name in the base class
        """Nothing: the path has the code."""
