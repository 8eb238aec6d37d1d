"""The front page, sign-in by password, one-time link or identity provider, and health checks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Annotated
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

import fairpool
from fairpool.api.access import TokenRequest
from fairpool.api.gateway_address import PATH_MAX, local_path
from fairpool.api.sessions import SignInMethod
from fairpool.api.wire import ValidationError
from fairpool.control.browser_session import OWN_SITES, clear_session, cookie_of, set_session
from fairpool.control.guard import BROWSER_TOKENS, caller_with
from fairpool.control.host_check import check_origin
from fairpool.control.owner import redeem_link, signed_in_here
from fairpool.control.page_layout import HEADERS, layout
from fairpool.control.plane import Caller, Plane, plane_of
from fairpool.control.preferences import sign_in_provider
from fairpool.control.provider_settings import provider_path
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.routes import Parameter, Routes
from fairpool.control.sign_in import signed_in_by_password
from fairpool.control.store import access as store
from fairpool.control.store import audit as audit_store
from fairpool.control.store import identity_providers as provider_store
from fairpool.control.store.database import Connection
from fairpool.control.tokens import new_browser_token, origin_of

routes = Routes(in_document=False)

# --- health ------------------------------------------------------------------------------------------------------


@routes.get(
    "/healthz",
    action=Action.OPEN,
)
async def healthz() -> Response:
    """The process answers."""
    return JSONResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})


@routes.get(
    "/readyz",
    action=Action.OPEN,
)
async def readyz(request: Request) -> Response:
    """The database can be read, and the other parts of the platform are ready."""
    try:
        await plane_of(request).read(store.user_count)
        is_ready = bool(request.app.state.is_ready())
    except Exception:  # not ready, whatever the reason; details are not for unauthenticated callers
        is_ready = False
    status = {"status": "ready" if is_ready else "not ready"}
    return JSONResponse(status, 200 if is_ready else 503, {"Cache-Control": "no-store"})


# --- the front page ----------------------------------------------------------------------------------------------


@routes.get(
    "/",
    action=Action.OPEN,
)
async def front(request: Request) -> Response:
    """The web UI: also every page and file of it that has no route of its own. It asks the API who is signed in."""
    answer: Response | None = request.app.state.web_ui.response(request)
    return answer if answer is not None else await _without_web_ui(request)


async def _without_web_ui(request: Request) -> Response:
    caller = await signed_in(request)
    if caller is not None:
        who = (
            f"<p>You are signed in as <strong>{escape(caller.name)}</strong>.</p>"
            '<form method="post" action="/sign-out"><button>Sign out</button></form>'
        )
    else:
        who = '<p>You are not signed in. <a href="/sign-in">Sign in</a></p>'
    return layout(
        "Fairpool",
        "<h1>The web UI is not installed</h1><p>This server was built without it (<code>FAIRPOOL_UI=skip</code>). In a "
        "checkout, build it with <code>make ui</code>, then restart the server. Released packages contain it.</p>"
        "<p>The <code>runai</code> and <code>runai-adm</code> commands and the REST API work without it.</p>"
        f"{who}<nav><a href='/docs'>API reference</a><a href='/api/openapi.json'>OpenAPI document</a></nav>"
        f'<p class="soft">Fairpool {escape(fairpool.__version__)}</p>',
    )


async def signed_in(request: Request) -> Caller | None:
    """The caller of the browser's session."""
    token = cookie_of(request.headers, is_secure=request.url.scheme == "https")
    try:
        return await caller_with(plane_of(request), token, BROWSER_TOKENS) if token else None
    except Refused:
        return None


# --- sign-in -----------------------------------------------------------------------------------------------------


@routes.get(
    "/sign-in",
    action=Action.OPEN,
)
async def sign_in_by_link(
    request: Request,
    code: Annotated[str, Parameter(max_length=128)] = "",
    following: Annotated[str, Parameter(alias="next", max_length=PATH_MAX)] = "/",
    local: bool = False,
) -> Response:
    """Open a one-time link; redirects, so that the code does not stay in the address bar. Without a code: a form, or
    the way to the identity provider that an administrator chose, unless `local` asks for the form."""
    plane = plane_of(request)
    if not code:
        alias = "" if local else await plane.read(sign_in_provider)
        if alias:
            return RedirectResponse(_way(alias, local_path(following)), 303, HEADERS)
        return await _form(request, following)
    user_id = await plane.write(lambda connection: redeem_link(connection, code, plane.now()))
    token = await _browser_token(request, plane, user_id) if user_id is not None else None
    if token is None:
        body = (
            "<h1>This sign-in link is not valid</h1><p>A link works once, for ten minutes. Get a new one on the "
            "server's machine with <code>fairpool up --detach</code>.</p><nav><a href='/'>Back</a></nav>"
        )
        return layout("Sign-in link not valid", body, 403)
    return await with_session(request, token, local_path(following))


@routes.post(
    "/sign-in",
    action=Action.OPEN,
)
async def sign_in_by_password(request: Request) -> Response:
    """The form. A foreign page cannot send it: it would sign the reader in as another user."""
    check_origin(request.headers.get("origin"), request.headers.get("host", ""))
    plane, form = plane_of(request), await request.form()
    following, user = str(form.get("next", "/")), str(form.get("username", ""))
    said = {"grantType": "password", "username": user, "password": str(form.get("password", ""))}

    def issue(connection: Connection, _: store.UserRow, caller: Caller) -> str:
        return new_browser_token(connection, plane, caller, origin_of(request, SignInMethod.PASSWORD))

    try:
        TokenRequest.model_validate(said)
        token = await signed_in_by_password(request, plane, user, said["password"], issue)
    except ValidationError:
        return await _form(request, following, user, "a field is missing or too long", 422)
    except Refused as refusal:
        shown = await _form(request, following, user, refusal.message, refusal.status)
        shown.headers.update({name: value for name, value in refusal.headers.items() if name == "Retry-After"})
        return shown
    return await with_session(request, token, local_path(following))


async def _form(request: Request, following: str, user: str = "", wrong: str = "", status: int = 200) -> HTMLResponse:
    said = f'<p class="wrong" role="alert">{escape(wrong[:1].upper() + wrong[1:])}.</p>' if wrong else ""
    plane = plane_of(request)
    providers, gateway = await plane.read(provider_store.all_providers), plane.settings.gateway
    body = (
        f'<h1>Sign in to Fairpool</h1>{said}<form method="post" action="/sign-in">'
        f'<input type="hidden" name="next" value="{escape(local_path(following))}">'
        '<label>E-mail or user name <input name="username" autocomplete="username" required autofocus '
        f'value="{escape(user[:256])}"></label>'
        '<label>Password <input name="password" type="password" autocomplete="current-password" required></label>'
        f"<button>Sign in</button></form>{_buttons([each.alias for each in providers], local_path(following))}"
        '<p><a href="/forgot-password">Forgot your password?</a></p>'
        '<p class="soft">The administrator of this server can sign in without a password: <code>fairpool up '
        "--detach</code> prints a one-time link. Open it in this browser, then reload the page that led here.</p>"
    )
    page = layout("Sign in", body, status, forms_lead_to=gateway.origin_url("*") if gateway is not None else "")
    page.headers["Referrer-Policy"] = "same-origin"  # otherwise the browser would hide the origin of the form
    return page


def _buttons(providers: Sequence[str], following: str) -> str:
    """A way to each identity provider."""
    links = "".join(
        f'<a class="button" href="{escape(_way(each, following))}">Sign in with {escape(each)}</a>'
        for each in providers
    )
    return f"<h2>Or with the account of your company</h2>{links}" if links else ""


def _way(provider: str, following: str) -> str:
    return f"{provider_path(provider)}?{urlencode({'next': following})}"


async def with_session(request: Request, token: str, following: str) -> Response:
    """Sign the browser in with a new token, and lead it on. What it was signed in as before ends."""
    await _end_session(request)
    answer = led_on(following) if is_from_elsewhere(request) else RedirectResponse(following, 303, HEADERS)
    set_session(request, answer, token)
    return answer


def is_from_elsewhere(request: Request) -> bool:
    """Whether a page of another origin led here: then the browser has not sent our strict cookie."""
    return request.headers.get("sec-fetch-site", "none").lower() not in OWN_SITES


def led_on(following: str) -> HTMLResponse:
    """A page that leads on by itself. Unlike a redirect it begins a new request, with which our cookie is sent."""
    body = f'<p><a href="{escape(following)}">Continue</a></p>'
    return layout("Fairpool", body, refresh=following)


async def _end_session(request: Request) -> None:
    plane, caller = plane_of(request), await signed_in(request)
    if caller is not None:
        await plane.write(lambda connection: store.revoke_family(connection, caller.family))


async def _browser_token(request: Request, plane: Plane, user_id: str) -> str | None:
    def unit(connection: Connection) -> str | None:
        user = store.user(connection, user_id)
        if user is None:
            return None
        audit_store.add(connection, signed_in_here(user, plane.now()))
        caller = Caller(id=user.id, name=user.email, kind="user")
        return new_browser_token(connection, plane, caller, origin_of(request, SignInMethod.OWNER))

    return await plane.write(unit)


@routes.post(
    "/sign-out",
    action=Action.OPEN,
)
async def sign_out(request: Request) -> Response:
    """End the browser's session. The cookie is strict, and the origin is checked: foreign pages cannot call this."""
    check_origin(request.headers.get("origin"), request.headers.get("host", ""))
    await _end_session(request)
    answer = RedirectResponse("/", 303, HEADERS)
    clear_session(answer)
    return answer
