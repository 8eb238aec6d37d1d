"""`runai login`, `logout`, `whoami` and `password`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.api.limits import PASSWORD_MAX, PASSWORD_MIN
from fairpool.cli.failure import Failure, failure, print_problem
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.prompts import prompted
from fairpool.cli.runai.role_scope import role_in_scope
from fairpool.cli.runai.session import ACCESS_KEY_VARIABLE, Session, access_key_parts, end_session
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.access import AccessRule, Me, TokenAnswer

BrowserWay = Callable[[Client], "TokenAnswer"]
ASKED_MAX = 3
METHODS = ("user", "application", "sso", "remote-browser")
SINGLE_SIGN_ON = ("client_id", "idp_issuer_url", "redirect_server", "additional_scope")


@command("login", "runai login", with_project=False)
@click.argument("method", required=False, type=click.Choice(METHODS))
@flag("-u", "--user", metavar="NAME", help="User name; prompted for if not given.")
@flag(
    "--application",
    "--name",
    metavar="NAME",
    help="Sign in as this application, with its secret instead of a password.",
)
@flag("--access-key", is_flag=True, help="Sign in with an access key, CLIENT-ID:SECRET; prompted for.")
@flag("--password-stdin", is_flag=True, help="Read the password, secret or access key from standard input.")
@flag("--browser", is_flag=True, help="Sign in with the browser of this machine.")
@flag("--no-browser", is_flag=True, help="Print a link to open elsewhere, and ask for the code that is shown there.")
@flag("--device", is_flag=True, help="Print a short code to enter in a browser on any machine, and wait.")
@flag("-p", "--password", "--secret", "typed", hidden=True)
@flag("--client-id", hidden=True)
@flag("--idp-issuer-url", hidden=True)
@flag("--redirect-server", hidden=True)
@flag("--additional-scope", hidden=True)
@click.pass_obj
def login(
    options: GlobalOptions,
    /,
    method: str | None,
    user: str | None,
    application: str | None,
    access_key: bool,
    password_stdin: bool,
    typed: str | None,
    browser: bool,
    no_browser: bool,
    device: bool,
    **single_sign_on: str | None,
) -> None:
    """Sign in to a server: with a browser, a password, an access key, or as an application.

    Without --user, the browser is used if the server has an identity provider.
    """
    _refuse_foreign_flags(single_sign_on)
    session = Session(options)
    if access_key:
        _log_in_with_key(session, password_stdin)
        return
    way = _way(method, by_name=bool(user or application), browser=browser, no_browser=no_browser, device=device)
    if way is not None or (method is None and not user and not application and not password_stdin):
        with session.unsigned() as client:
            if way is not None or client.sign_in_ways().providers:
                from fairpool.cli.runai.browser_login import browser_login

                _browser_sign_in(options, session, client, way or browser_login)
                return
    if method == "application" and application is None:
        application = prompted("Application", f"use --name NAME --password-stdin, or set {ACCESS_KEY_VARIABLE}")
    name = application or user or prompted("User", f"use --user NAME --password-stdin, or set {ACCESS_KEY_VARIABLE}")
    if typed is not None:
        options.warn("Warning: other users of this machine can see a password in a command line. Use --password-stdin.")
    password = typed or _password("Secret" if application else "Password", password_stdin)
    with session.unsigned() as client:
        answer = client.sign_in_application(name, password) if application else client.sign_in(name, password)
        session.keep(name, client, answer.refresh_token, answer.expires_in)
        left = session.configuration.set_server(session.server)
        click.echo("Logged in successfully")
        if left:
            options.notice(f"Context {left} is no longer in use. To return to it: runai context use {left}")
        if answer.must_change_password:
            options.warn(f"The password of {name} is temporary. Change it before you run other commands.")
            if password_stdin or not sys.stdin.isatty():
                options.notice("Change it with: runai password")
            else:
                _change(session, client, name, password, _new_password())


def _log_in_with_key(session: Session, from_stdin: bool) -> None:
    client_id, secret = access_key_parts(_password("Access key", from_stdin), "this")
    with session.unsigned() as client:
        answer = client.sign_in_application(client_id, secret)
        session.keep(client.me().username, client, answer.refresh_token, answer.expires_in)
        session.configuration.set_server(session.server)
    click.echo("Logged in successfully")


def _refuse_foreign_flags(said: dict[str, str | None]) -> None:
    asked = [f"--{name.replace('_', '-')}" for name in SINGLE_SIGN_ON if said[name]]
    if asked:
        what = f"{', '.join(asked)} cannot be set here: the server knows its identity providers"
        raise failure("login.provider_flags", what, "run: runai login")


def _way(method: str | None, *, by_name: bool, browser: bool, no_browser: bool, device: bool) -> BrowserWay | None:
    """How to sign in with a browser, if that is asked for."""
    from fairpool.cli.runai.browser_login import browser_login, copied_login, device_login

    asked = {
        browser_login: browser or method == "sso",
        copied_login: no_browser or method == "remote-browser",
        device_login: device,
    }
    ways = [way for way, is_asked in asked.items() if is_asked]
    if len(ways) > 1 or (ways and (by_name or method in ("user", "application"))):
        what = "--browser, --no-browser, --device and a user name are different ways to sign in"
        raise failure("login.several_ways", what, "use one of them")
    return ways[0] if ways else None


def _browser_sign_in(options: GlobalOptions, session: Session, client: Client, way: BrowserWay) -> None:
    answer = way(client)
    name = client.me().username
    session.keep(name, client, answer.refresh_token, answer.expires_in)
    left = session.configuration.set_server(session.server)
    click.echo(f"Logged in successfully as {printable(name)}")
    if left:
        options.notice(f"Context {left} is no longer in use. To return to it: runai context use {left}")
    if answer.must_change_password:
        options.warn(f"The password of {name} is temporary. Change it with: runai password")


def _password(word: str, from_stdin: bool) -> str:
    if from_stdin or not sys.stdin.isatty():
        line = sys.stdin.readline().rstrip("\r\n")
        if not line:
            raise failure("login.no_password", f"no {word.lower()} on standard input", "pipe it in as one line")
        return line
    return str(click.prompt(word, hide_input=True, err=True))


def _new_password() -> str:
    """Prompted for twice, until it is acceptable."""
    for _ in range(ASKED_MAX):
        new = str(click.prompt("New password", hide_input=True, err=True))
        problem = _problem_with(new)
        if problem is None and click.prompt("New password again", hide_input=True, err=True) != new:
            problem = Problem("password.differ", "the passwords do not match", "type the same password twice")
        if problem is None:
            return new
        print_problem(problem)
    raise failure("password.none", "the password was not changed", "run: runai password")


def _problem_with(new: str) -> Problem | None:
    if len(new) < PASSWORD_MIN:
        what = "the new password is too short"
        return Problem("password.short", what, f"use at least {PASSWORD_MIN} characters")
    if len(new) > PASSWORD_MAX:
        return Problem("password.long", "the new password is too long", f"use at most {PASSWORD_MAX} characters")
    return None


def _change(session: Session, client: Client, name: str, current: str, new: str) -> None:
    """Changing a password ends all sessions but this one, which can no longer be renewed: begin another instead."""
    client.change_password(current, new)
    former, answer = client.token, client.sign_in(name, new)
    session.keep(name, client, answer.refresh_token, answer.expires_in)
    client.token = former
    end_session(client)
    client.token = answer.access_token
    click.echo("Password changed")


@command("password", "runai password", with_project=False)
@flag(
    "--stdin",
    "from_stdin",
    is_flag=True,
    help="Read the current and the new password from standard input, one per line. If the account has no password, "
    "read only the new one.",
)
@click.pass_obj
def password(options: GlobalOptions, from_stdin: bool) -> None:
    """Change your own password. Your other sessions end."""
    session = Session(options)
    with session.connected() as client:
        me = client.me()
        if from_stdin or not sys.stdin.isatty():
            current = _password("current password", True) if me.has_password else ""
            new = _password("new password", True)
            problem = _problem_with(new)
            if problem is not None:
                raise Failure([problem])
        else:
            current = str(click.prompt("Current password", hide_input=True, err=True)) if me.has_password else ""
            new = _new_password()
        _change(session, client, me.username, current, new)


@command("logout", "runai logout", with_project=False)
@click.pass_obj
def logout(options: GlobalOptions) -> None:
    """Sign out. The token is revoked on the server and removed from this machine."""
    session = Session(options)
    if session.configuration.login(session.server) is None:
        click.echo(f"You were not logged in to {session.server}")
        return
    try:
        with session.logged_in() as client:
            client.sign_out()
    except Failure as failed:
        if any(each.code != "access.not_signed_in" for each in failed.problems):
            options.warn(
                f"The token was removed from this machine, but not revoked at {session.server}. It expires by itself."
            )
    session.configuration.forget_login(session.server)
    click.echo("Logged out successfully")


@command("token", 'curl -H "Authorization: Bearer $(runai auth token)" ...', with_project=False)
@click.pass_obj
def auth_token(options: GlobalOptions) -> None:
    """Print an access token of the signed-in user, for other programs that call the API. It expires soon."""
    session = Session(options)
    with session.connected(keeps_token=True) as client:
        client.me()  # a token that is no longer valid is not printed
        token = client.token
    click.echo(token)


def _roles(me: Me) -> list[str]:
    """Each with its scope, and with the group that it comes from."""
    return sorted({_role(each) for each in me.access_rules})


def _role(rule: AccessRule) -> str:
    is_of_group = rule.subject_type == "group"
    return role_in_scope(rule) + (f" (group {rule.subject_name})" if is_of_group else "")


@command("whoami", "runai whoami", with_project=False)
@flag("--permissions", is_flag=True, help="List the names of your permissions, one per line, and nothing else.")
@click.pass_obj
def whoami(options: GlobalOptions, permissions: bool) -> None:
    """Show the signed-in user, their roles and the server."""
    session = Session(options)
    with session.connected() as client:
        me = client.me()
    if permissions:
        for each in me.permissions:
            click.echo(printable(each))
        return
    click.echo(f"User: {printable(me.username)}")
    click.echo(f"Logged in Id: {printable(me.id)}")
    click.echo(f"Roles: {printable(', '.join(_roles(me))) or '-'}")
    if me.access_key_id is not None:
        click.echo(f"Access key: {printable(me.access_key_id)} (may permit less than the roles)")
    if me.groups:
        click.echo(f"Groups: {printable(', '.join(me.groups))}")
    click.echo(f"Server: {session.server}")
