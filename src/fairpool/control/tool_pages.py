"""Pages that lead a browser to a tool behind the gateway: who is it, may they, and where is it."""

from __future__ import annotations

from html import escape
from typing import Annotated
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fairpool.api.gateway import ENTER
from fairpool.api.gateway_address import PATH_MAX, GatewayAddress, local_path
from fairpool.control.page_layout import HEADERS, layout
from fairpool.control.pages import is_from_elsewhere, led_on, signed_in
from fairpool.control.plane import ActionResult, Caller, Plane, entry, plane_of
from fairpool.control.rbac import Action
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import audit as audit_store
from fairpool.control.store.database import Connection
from fairpool.control.tool_access import may_open, new_ticket, tool_urls

routes = Routes(in_document=False)

SHOWN_MAX = 50
NOT_THERE = (
    "<h1>There is no such tool, or you have no access to it</h1><p><code>runai list</code> shows the jobs of your "
    "projects with their URLs. A tool has a URL while its job is running.</p><nav><a href='/'>Back</a></nav>"
)


@routes.get(
    "/open",
    action=Action.OPEN,
)
async def open_tool(
    request: Request,
    origin: Annotated[str, Parameter(max_length=64)] = "",
    browser: Annotated[str, Parameter(max_length=64)] = "",
    path: Annotated[str, Parameter(max_length=PATH_MAX)] = "/",
    tool: Annotated[str, Parameter(max_length=PATH_MAX)] = "",
) -> Response:
    """With an origin: a ticket for it. With the documented path of a tool: its origin, which then asks for a ticket."""
    plane, caller = plane_of(request), await signed_in(request)
    gateway = plane.settings.gateway
    if gateway is None:
        return layout("Not found", NOT_THERE, 404)
    here = f"/open?{request.url.query}"
    if caller is None and is_from_elsewhere(request):
        return led_on(here)
    if caller is None:
        return RedirectResponse(f"/sign-in?next={quote(here, safe='')}", 303, HEADERS)
    if caller.must_change_password:
        body = (
            "<h1>Your password must be changed first</h1><p>Change it here or with <code>runai password</code>, then "
            "open the tool again.</p><a class='button' href='/'>Change password</a>"
        )
        return layout("Change your password", body, 403)
    if tool:
        return await _by_path(plane, gateway, caller, tool)
    found = await may_open(plane, caller, origin)
    if found is None or not browser:
        return layout("Not found", NOT_THERE, 404)
    opened = ActionResult(action="open-tool", entity_type="workload", entity_id=found.key.id, entity_name=found.name)

    def unit(connection: Connection) -> str:
        audit_store.add(connection, entry(request, caller, opened, plane.now()))
        return new_ticket(connection, origin, browser, caller, plane.now())

    ticket = await plane.write(unit)
    query = urlencode({"ticket": ticket, "path": local_path(path)})
    return RedirectResponse(f"{gateway.origin_url(origin)}{ENTER}?{query}", 303, HEADERS)


async def _by_path(plane: Plane, gateway: GatewayAddress, caller: Caller, tool: str) -> Response:
    found = await tool_urls(plane, gateway, caller, local_path(tool))
    if len(found) == 1:
        return RedirectResponse(found[0][1], 303, HEADERS)
    if not found:
        return layout("Not found", NOT_THERE, 404)
    links = "".join(f'<li><a href="{escape(url)}">{escape(name)}</a></li>' for name, url in found[:SHOWN_MAX])
    return layout("Several tools", f"<h1>Several jobs have this name</h1><ul>{links}</ul>")
