"""HTTP routes for what a user chose in the web UI: saved views, density, theme, hints that were closed.

The server keeps it as it is, so that it is the same in every browser. It grants nothing, and is not in the audit log.
"""

from __future__ import annotations

from starlette.responses import Response

from fairpool.api.access import PAGE_PREFERENCES_MAX_BYTES, PagePreferences
from fairpool.api.wire import compact
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import denied, refused
from fairpool.control.routes import Routes
from fairpool.control.store import access as access_store
from fairpool.control.store import page_preferences as store
from fairpool.control.store.database import Connection

routes = Routes("access")

PATH = "/api/v1/me/preferences"
EXAMPLE = {
    "description": "Successful Response",
    "content": {
        "application/json": {
            "schema": {"type": "object", "additionalProperties": {}},
            "example": {"density": "compact", "views": {"workloads": [{"name": "mine", "search": "?user=me"}]}},
        }
    },
}


@routes.get(PATH, action=Action.SELF, summary="Get what you chose in the web UI", responses={200: EXAMPLE})
async def page_preferences(plane: Plane, caller: Caller) -> Response:
    found = await plane.read(lambda connection: store.of_user(connection, caller.id))
    return Response(found or "{}", media_type="application/json", headers={"Cache-Control": "no-store"})


@routes.put(
    PATH,
    action=Action.SELF,
    summary="Replace what you chose in the web UI",
    responses={200: EXAMPLE},
    body_max_bytes=2 * PAGE_PREFERENCES_MAX_BYTES,
)
async def replace_page_preferences(plane: Plane, caller: Caller, body: PagePreferences) -> Response:
    caller.require_no_key()
    if caller.kind != "user":
        raise denied("only users have preferences", "sign in as a user")
    text = compact(body)
    if len(text.encode()) > PAGE_PREFERENCES_MAX_BYTES:
        what = f"preferences are larger than {PAGE_PREFERENCES_MAX_BYTES // 1024} KiB"
        raise refused(413, "request.too_large", what, "delete saved views that you no longer use")

    def unit(connection: Connection) -> None:
        if access_store.user(connection, caller.id) is not None:  # not deleted a moment ago
            store.put(connection, caller.id, text, plane.now())

    await plane.write(unit)
    return Response(text, media_type="application/json")
