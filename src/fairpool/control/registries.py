"""HTTP routes for image registries: the credentials of type `docker-registry`, and what each registry has.

Both names are for one thing: who creates a registry here has a credential that images are pulled with, and each
credential of that type is a registry that can be asked for its repositories.
"""

from __future__ import annotations

from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import credentials as credentials_wire
from fairpool.api import registries as wire
from fairpool.api.asset_paths import REGISTRIES
from fairpool.api.limits import PAGE_MAX
from fairpool.control import credentials, preferences
from fairpool.control.cluster_secrets import unsealed
from fairpool.control.credential_answers import shown
from fairpool.control.paging import Limit, Offset, Search
from fairpool.control.plane import ActionResult, Caller, Plane, answered
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused
from fairpool.control.registry_contents import RegistryLogin, repositories_of, tags_of
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store.database import Connection
from fairpool.model.secret import CredentialKind

routes = Routes("credentials")

KIND = CredentialKind.REGISTRY
ONE = REGISTRIES + "/{registry_id}"
Name = Annotated[str, Parameter(max_length=64, description="Only those of exactly this name")]
SearchName = Annotated[str, Parameter(alias="searchName", max_length=256, description="Text that the name contains")]
Repository = Annotated[str, Parameter(min_length=1, max_length=512, description="Its name in the registry")]


@routes.get(REGISTRIES, action=Action.ASSET_READ, answer=wire.RegistryPage, summary="List image registries")
async def registries(
    plane: Plane, caller: Caller, name: Name = "", search: Search = "", offset: Offset = 0, limit: Limit = PAGE_MAX
) -> wire.RegistryPage:
    query = credentials.CredentialQuery(name=name, search=search, offset=offset, limit=limit)
    found = await credentials.credentials_of_kind(KIND.value, plane, caller, query)
    return wire.RegistryPage(entries=[_registry(each) for each in found.entries], next=found.next)


@routes.get(ONE, action=Action.ASSET_READ, answer=wire.Registry, summary="Get an image registry")
async def registry(registry_id: str, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> wire.Registry:
        row = credentials.known(connection, caller, KIND, registry_id)
        return _registry(shown(connection, row, credentials.key_id(plane)))

    found = await plane.read(unit)
    return answered(ActionResult(body=found, revision=found.revision))


@routes.post(
    REGISTRIES,
    action=Action.CREDENTIAL_WRITE,
    answer=wire.Registry,
    status=201,
    summary="Create an image registry",
)
async def create_registry(request: Request, plane: Plane, caller: Caller, body: wire.RegistryRequest) -> Response:
    """Images of this host are pulled with its login by the pods of its scope."""
    spec = credentials_wire.CredentialSpec(**body.spec.model_dump())
    asked = credentials_wire.CredentialRequest(meta=body.meta, spec=spec)
    return await credentials.create(request, plane, caller, KIND, asked, _registry)


@routes.put(ONE, action=Action.CREDENTIAL_WRITE, answer=wire.Registry, summary="Change the description of a registry")
async def change_registry(
    registry_id: str, request: Request, plane: Plane, caller: Caller, body: wire.RegistryChange
) -> Response:
    change = credentials_wire.CredentialChange(meta=body.meta)
    return await credentials.replace(request, plane, caller, KIND, registry_id, change, _registry)


@routes.delete(ONE, action=Action.CREDENTIAL_WRITE, status=204, summary="Delete an image registry")
async def delete_registry(registry_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    """Images that were pulled stay where they are."""
    return await credentials.delete_credential(KIND.value, registry_id, request, plane, caller)


@routes.get(
    ONE + "/repositories",
    action=Action.ASSET_READ,
    answer=wire.Repositories,
    summary="List the repositories of a registry",
)
async def repositories(
    registry_id: str, plane: Plane, caller: Caller, search_name: SearchName = ""
) -> wire.Repositories:
    """Asks the registry itself, with the stored login."""
    login = await plane.read(lambda connection: _login(plane, connection, caller, registry_id))
    found = await repositories_of(login)
    return wire.Repositories(repositories=[each for each in found if search_name in each])


@routes.get(
    ONE + "/repositories/tags",
    action=Action.ASSET_READ,
    answer=wire.RepositoryTags,
    summary="List the tags of a repository",
)
async def tags(
    registry_id: str, plane: Plane, caller: Caller, repository: Repository, search_name: SearchName = ""
) -> wire.RepositoryTags:
    login = await plane.read(lambda connection: _login(plane, connection, caller, registry_id))
    found = await tags_of(login, repository)
    return wire.RepositoryTags(name=repository, tags=[each for each in found if search_name in each])


def _registry(found: credentials_wire.StoredCredential) -> wire.Registry:
    meta = found.meta.model_copy(update={"kind": "registry"})
    spec = wire.RegistrySpecAnswer(url=found.spec.url or "", user=found.spec.user or "")
    return wire.Registry(meta=meta, spec=spec, revision=found.revision)


def _login(plane: Plane, connection: Connection, caller: Caller, registry_id: str) -> RegistryLogin:
    row: Any = credentials.known(connection, caller, KIND, registry_id)
    values = unsealed(plane, connection, [row]).get(row.id)
    if values is None:
        what = f"the value of credential {row.name} is lost: it was encrypted with another key"
        raise refused(422, "credential.unreadable", what, f"set it again: runai-adm credential update {row.name}")
    text = {key: value.decode(errors="replace") for key, value in values.items()}
    return RegistryLogin(
        url=text["url"],
        user=text["user"],
        password=text["password"],
        is_private_allowed=bool(preferences.current_value(plane.settings, connection, preferences.PRIVATE_REGISTRIES)),
    )
