"""HTML pages on which a signed-in person lets a command in.

The command makes a secret and sends only its hash along (PKCE), so that a code is of no use to those who see it. Three
ways, all the same for local accounts and those of identity providers: the browser hands the code to the command on
its own machine; the person copies it; or the person types a short code of the command in a browser anywhere, and
the command waits (device code). In each the person is asked first: a link from an attacker must not sign them in there.
"""

from __future__ import annotations

from html import escape
from typing import Annotated
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fairpool.control.command_grants import CODE_S, DeviceRequest, decide_device, device_request, new_code
from fairpool.control.command_sign_in import CODES_A_MINUTE
from fairpool.control.host_check import check_origin
from fairpool.control.page_layout import HEADERS, layout
from fairpool.control.pages import signed_in
from fairpool.control.plane import MINUTE_MS, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.routes import Parameter, Routes
from fairpool.control.sign_in_attempt import is_over_rate
from fairpool.model.ids import Instant

routes = Routes(in_document=False)

CHALLENGE_LENGTH = 43
"""Of a SHA-256 hash in base64."""
Challenge = Annotated[str, Parameter(max_length=128, pattern=r"^[A-Za-z0-9_-]{0,128}$")]
Port = Annotated[int, Parameter(ge=0, le=65535)]


@routes.get("/sign-in/command", action=Action.OPEN)
async def ask(
    request: Request, plane: Plane, challenge: Challenge = "", state: Challenge = "", port: Port = 0
) -> Response:
    """Ask the signed-in person whether a command may act as them."""
    caller = await signed_in(request)
    if caller is None:
        return _sign_in_first(request)
    where = f"runai on this computer (port {port})" if port else "runai, which shows a prompt for a code,"
    body = (
        f"<h1>Sign in to the command line?</h1><p>{escape(where)} will act as "
        f"<strong>{escape(caller.name)}</strong>. Continue only if you have just started <code>runai login</code>.</p>"
        '<form method="post" action="/sign-in/command">'
        f'<input type="hidden" name="challenge" value="{escape(challenge)}">'
        f'<input type="hidden" name="state" value="{escape(state)}">'
        f'<input type="hidden" name="port" value="{port}"><button>Allow</button></form>'
    )
    return _page("Sign in to the command line", body, leads_to=_loopback(port) if port else "")


@routes.post("/sign-in/command", action=Action.OPEN)
async def allow(request: Request, plane: Plane) -> Response:
    """Give out a code: to the command, which listens on this computer, or to the person."""
    check_origin(request.headers.get("origin"), request.headers.get("host", ""))
    caller, form = await signed_in(request), await request.form()
    challenge, state = str(form.get("challenge", "")), str(form.get("state", ""))
    port = str(form.get("port", "0"))
    if caller is None:
        return _sign_in_first(request)
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    if len(challenge) != CHALLENGE_LENGTH or len(state) > 128 or not is_port:
        body = "<h1>This link is incomplete</h1><p>Start again with <code>runai login</code>.</p>"
        return _page("Link incomplete", body, 422)
    code = await plane.write(lambda connection: new_code(connection, caller, challenge, plane.now()))
    if port != "0":
        query = urlencode({"code": code, "state": state})
        return RedirectResponse(f"{_loopback(int(port))}/?{query}", 303, HEADERS)
    body = (
        f"<h1>Copy this code</h1><p>Paste it where <code>runai login</code> asks for it. It works once, for "
        f'{CODE_S // 60} minutes.</p><pre><code id="code">{escape(code)}</code></pre>'
    )
    return _page("Code for the command line", body)


def _loopback(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@routes.get("/device", action=Action.OPEN)
async def device_page(request: Request, plane: Plane, code: Annotated[str, Parameter(max_length=64)] = "") -> Response:
    """Ask the signed-in person for the code."""
    caller = await signed_in(request)
    return _sign_in_first(request) if caller is None else _device_form(code)


@routes.post("/device", action=Action.OPEN)
async def decide(request: Request, plane: Plane) -> Response:
    """Show which command waits with this code; with a decision: approve or deny its sign-in."""
    check_origin(request.headers.get("origin"), request.headers.get("host", ""))
    caller, form = await signed_in(request), await request.form()
    if caller is None:
        return _sign_in_first(request)
    code, decision, now = str(form.get("code", ""))[:64], form.get("decision"), plane.now()
    name = f"device codes tried by {caller.id}"
    if await plane.write(lambda connection: is_over_rate(connection, name, CODES_A_MINUTE, now)):
        return _device_form(code, "too many codes were tried: wait a minute", 429)
    if decision not in ("approve", "deny"):
        waiting = await plane.read(lambda connection: device_request(connection, code, now))
        return _confirmation(caller, code, waiting, now) if waiting is not None else _device_form(code, _NO_CODE, 404)
    is_denied = decision == "deny"
    if not await plane.write(lambda connection: decide_device(connection, caller, code, now, is_denied=is_denied)):
        return _device_form(code, _NO_CODE, 404)
    done = "denied" if is_denied else "approved"
    said = "Nothing was signed in." if is_denied else "The command continues by itself; you can close this page."
    return _page(f"Sign-in {done}", f"<h1>Sign-in {done}</h1><p>{said}</p>")


_NO_CODE = "this code is wrong, was used already, or has expired"


def _device_form(code: str, wrong: str = "", status: int = 200) -> Response:
    """Nothing is allowed on this page: its link may come from an attacker, with the code of a command of theirs."""
    said = f'<p class="wrong" role="alert">{escape(wrong[:1].upper() + wrong[1:])}.</p>' if wrong else ""
    body = (
        f"<h1>Sign in another device</h1>{said}<p>Enter the code that <code>runai login --device</code> shows.</p>"
        '<form method="post" action="/device"><label>Code <input name="code" autocomplete="off" required '
        f'class="code" value="{escape(code)}"></label><button>Continue</button></form>'
    )
    return _page("Sign in another device", body, status)


def _confirmation(caller: Caller, code: str, waiting: DeviceRequest, now: Instant) -> Response:
    minutes = (now - waiting.begun_at) // MINUTE_MS
    begun = f"{minutes} min ago" if minutes else "less than a minute ago"
    rows = {"Code": code, "Started": begun, "From the address": waiting.address, "Program": waiting.client or "unknown"}
    shown = "".join(f"<li>{name}: <strong>{escape(value)}</strong></li>" for name, value in rows.items())
    body = (
        f"<h1>Let this command act as {escape(caller.name)}?</h1><ul>{shown}</ul><p>Allow it only if you have started "
        "<code>runai login --device</code> yourself, on the machine with this address. If another person sent you the "
        "code or the link, deny it: they would get access to your account.</p>"
        f'<form method="post" action="/device"><input type="hidden" name="code" value="{escape(code)}">'
        '<button name="decision" value="deny" class="plain">Deny</button> '
        '<button name="decision" value="approve">Allow</button></form>'
    )
    return _page("Let a command in", body)


def _sign_in_first(request: Request) -> Response:
    query = f"?{request.url.query}" if request.url.query and request.method == "GET" else ""
    following = urlencode({"next": f"{request.url.path}{query}"})
    return RedirectResponse(f"/sign-in?{following}", 303, HEADERS)


def _page(title: str, body: str, status: int = 200, *, leads_to: str = "") -> Response:
    page = layout(title, body, status, forms_lead_to=leads_to)
    page.headers["Referrer-Policy"] = "same-origin"  # otherwise the browser would hide the origin of the form
    return page
