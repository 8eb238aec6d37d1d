"""HTML pages for a forgotten password: ask for a link, and choose a new password with it."""

from __future__ import annotations

from html import escape
from typing import Annotated

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fairpool.api.access import ForgottenRequest, ResetRequest
from fairpool.api.wire import ValidationError
from fairpool.control.host_check import check_origin
from fairpool.control.page_layout import layout
from fairpool.control.password_reset import check_code, send_link, set_password
from fairpool.control.plane import plane_of
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.routes import Parameter, Routes

routes = Routes(in_document=False)

SENT = (
    "<h1>Look into your mail</h1><p>If there is an account with this address, a link was sent to it. It works once, "
    "for a short time.</p><nav><a href='/sign-in?local=true'>Back</a></nav>"
)
DONE = (
    "<h1>Your password was changed</h1><p>All sessions have ended.</p>"
    "<nav><a href='/sign-in?local=true'>Sign in</a></nav>"
)


@routes.get(
    "/forgot-password",
    action=Action.OPEN,
)
async def ask() -> Response:
    return _ask()


@routes.post(
    "/forgot-password",
    action=Action.OPEN,
)
async def asked(request: Request) -> Response:
    check_origin(request.headers.get("origin"), request.headers.get("host", ""))
    form = await request.form()
    try:
        body = ForgottenRequest.model_validate({"email": str(form.get("email", ""))})
        await send_link(request, plane_of(request), body.email)
    except ValidationError:
        return _ask("This is not a valid mail address.", 422)
    except Refused as refusal:
        return _ask(_sentence(refusal), refusal.status)
    return layout("Link sent", SENT)


@routes.get(
    "/reset-password",
    action=Action.OPEN,
)
async def choose(request: Request, code: Annotated[str, Parameter(max_length=128)] = "") -> Response:
    """Opening the link changes nothing yet: programs that inspect mail open links as well."""
    plane = plane_of(request)
    try:
        await plane.read(lambda connection: check_code(connection, plane, code))
    except Refused as refusal:
        return _not_valid(refusal)
    return _choose(code)


@routes.post(
    "/reset-password",
    action=Action.OPEN,
)
async def chosen(request: Request) -> Response:
    check_origin(request.headers.get("origin"), request.headers.get("host", ""))
    form = await request.form()
    code, new, again = (str(form.get(name, "")) for name in ("code", "password", "again"))
    if new != again:
        return _choose(code, "The passwords do not match.", 422)
    try:
        body = ResetRequest.model_validate({"code": code, "newPassword": new})
        await set_password(request, plane_of(request), body.code, body.new_password)
    except ValidationError:
        return _choose(code, "Use 8 to 1024 characters.", 422)
    except Refused as refusal:
        return _not_valid(refusal) if refusal.status == 403 else _choose(code, _sentence(refusal), refusal.status)
    return layout("Password changed", DONE)


def _sentence(refusal: Refused) -> str:
    return " ".join(f"{each.what[:1].upper()}{each.what[1:]}: {each.fix}." for each in refusal.problems)


def _ask(wrong: str = "", status: int = 200) -> HTMLResponse:
    body = (
        f"<h1>Forgotten password</h1>{_wrong(wrong)}<p>A link to choose a new one is sent to your address.</p>"
        '<form method="post" action="/forgot-password"><label>Mail address <input name="email" type="email" required>'
        "</label><button>Send link</button></form><nav><a href='/sign-in?local=true'>Back</a></nav>"
    )
    return _page("Forgotten password", body, status)


def _choose(code: str, wrong: str = "", status: int = 200) -> HTMLResponse:
    field = '<input name="{}" type="password" autocomplete="new-password" required>'
    body = (
        f'<h1>Choose a new password</h1>{_wrong(wrong)}<form method="post" action="/reset-password">'
        f'<input type="hidden" name="code" value="{escape(code[:128])}">'
        f"<label>New password {field.format('password')}</label><label>Once more {field.format('again')}</label>"
        "<button>Change password</button></form>"
    )
    return _page("Choose a new password", body, status)


def _not_valid(refusal: Refused) -> HTMLResponse:
    body = f"<h1>Link not valid</h1>{_wrong(_sentence(refusal))}<nav><a href='/forgot-password'>Ask again</a></nav>"
    return layout("Link not valid", body, refusal.status)


def _wrong(text: str) -> str:
    return f'<p class="wrong" role="alert">{escape(text)}</p>' if text else ""


def _page(title: str, body: str, status: int) -> HTMLResponse:
    page = layout(title, body, status)
    page.headers["Referrer-Policy"] = "same-origin"  # otherwise the browser would hide the origin of the form
    return page
