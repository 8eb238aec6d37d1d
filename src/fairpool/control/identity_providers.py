"""HTTP routes for identity providers, by which people sign in with the account of their company."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import identity_providers as wire
from fairpool.api.access import ScopeType, SubjectType
from fairpool.api.identity_providers import MetadataType, ProviderType
from fairpool.api.wire import Answer, compact, parse_json
from fairpool.control import oidc, outbound, rbac, saml
from fairpool.control.access_key_end import confirmed_until, end_key_sessions
from fairpool.control.access_rules import check_not_above
from fairpool.control.moments import iso
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.provider_client import SAML_METADATA, ProviderClient, outbound_rules
from fairpool.control.provider_error import ProviderError
from fairpool.control.provider_identity import UnixIdentity
from fairpool.control.provider_sessions import end_sessions
from fairpool.control.provider_settings import (
    base_address,
    mandatory_claim_of,
    mappers_of,
    metadata_document,
    provider_path,
    provider_settings,
    readable_key,
    sealed_secret,
    stored_metadata,
)
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, denied, refused, unknown
from fairpool.control.routes import Routes
from fairpool.control.sealing import KeyUnusable, SealingKey
from fairpool.control.store import access as access_store
from fairpool.control.store import identity_providers as store
from fairpool.control.store import programs as program_store
from fairpool.control.store.database import Connection
from fairpool.model.ids import SECOND_MS

routes = Routes("access")

PROVIDERS_MAX = 50


@routes.get(
    "/api/v1/idps", action=Action.ACCESS_READ, answer=list[wire.IdentityProvider], summary="List identity providers"
)
async def providers(request: Request, plane: Plane, caller: Caller) -> list[wire.IdentityProvider]:
    found = await plane.read(store.all_providers)
    return [_shown(request, plane, each) for each in found]


@routes.get(
    "/api/v1/idps/{idp}", action=Action.ACCESS_READ, answer=wire.IdentityProvider, summary="Get an identity provider"
)
async def provider(idp: str, request: Request, plane: Plane, caller: Caller) -> wire.IdentityProvider:
    return _shown(request, plane, await plane.read(lambda connection: known(connection, idp)))


@routes.post(
    "/api/v1/idps",
    action=Action.ACCESS_WRITE,
    answer=wire.IdentityProviderName,
    status=201,
    summary="Add an identity provider",
)
async def create_provider(
    request: Request, plane: Plane, caller: Caller, body: wire.IdentityProviderRequest
) -> Response:
    """The provider is asked for its discovery document or metadata first."""
    _require_administrator(caller)
    said = await _document(plane, body)
    secret = body.oidc_data.client_secret if body.oidc_data is not None else ""
    if body.type is ProviderType.OIDC and not secret:
        raise refused(422, "idp.no_secret", "the client secret is missing", "send it", "oidcData.clientSecret")
    key = _key(plane)

    def unit(connection: Connection) -> ActionResult:
        there = {each.alias for each in store.all_providers(connection)}
        alias = body.name or _free_name(body.type.value, there)
        if alias in there:
            fix = "choose another name, or change the one that exists"
            raise refused(409, "idp.exists", f"there is an identity provider {alias} already", fix, "name")
        if len(there) >= PROVIDERS_MAX:
            fix = "delete one that is not used any more"
            raise refused(409, "idp.too_many", f"there are {PROVIDERS_MAX} identity providers already", fix)
        now = plane.now()
        store.add_provider(
            connection,
            alias,
            type=body.type.value,
            document=compact(_named(request, alias, _completed(said, BLANK[body.type]))),
            sealed=sealed_secret(key, alias, secret or ""),
            key_id=key.id,
            created_at=now,
            created_by=caller.name,
            updated_at=now,
        )
        return _done("create", alias, wire.IdentityProviderName(alias=alias), 201)

    return await plane.perform(request, caller, unit, pepper=key.content)


@routes.put(
    "/api/v1/idps/{idp}",
    action=Action.ACCESS_WRITE,
    answer=wire.IdentityProvider,
    summary="Change an identity provider",
)
async def update_provider(
    idp: str, request: Request, plane: Plane, caller: Caller, body: wire.IdentityProviderRequest
) -> Response:
    """What is left out stays as it is: mappers, scopes, the mandatory claim, and entity ID or metadata file of SAML.
    Null resets mappers and scopes, and removes the mandatory claim. The client secret stays only if client and
    discovery document are the same. The sessions of its users go on."""
    _require_administrator(caller)
    said = await _document(plane, body)
    secret = body.oidc_data.client_secret if body.oidc_data is not None else ""
    key = _key(plane)

    def unit(connection: Connection) -> ActionResult:
        row = known(connection, idp)
        if row.type != body.type.value or body.name not in (None, idp):
            fix = "delete it and add another one"
            raise refused(422, "idp.type", "the name and the type of an identity provider cannot be changed", fix)
        before = parse_json(row.document.encode())
        document = _named(request, idp, _completed(said, before))
        values = {"document": compact(document), "updated_at": plane.now()}
        if body.type is ProviderType.OIDC and not secret and not _is_same_client(before, document):
            what = "the stored client secret is not sent to another provider or client"
            raise refused(422, "idp.no_secret", what, "send the client secret", "oidcData.clientSecret")
        if secret:
            values |= {"sealed": sealed_secret(key, idp, secret), "key_id": key.id}
        store.change_provider(connection, idp, **values)
        return _done("update", idp, _shown(request, plane, known(connection, idp)))

    return await plane.perform(request, caller, unit, pepper=key.content)


@routes.delete(
    "/api/v1/idps/{idp}",
    action=Action.ACCESS_WRITE,
    status=204,
    summary="Delete an identity provider and end the sessions of its users",
)
async def delete_provider(idp: str, request: Request, plane: Plane, caller: Caller) -> Response:
    """Its users stay, with their workloads and roles, but neither they nor their access keys sign in any more."""
    _require_administrator(caller)

    def unit(connection: Connection) -> ActionResult:
        known(connection, idp)
        end_sessions(connection, store.sessions(connection, idp))
        users = store.users_of(connection, idp)
        store.delete_provider(connection, idp)
        for user in users:
            _end_unconfirmed_keys(connection, plane, user)
        return _done("delete", idp)

    return await plane.perform(request, caller, unit)


@routes.get(
    "/api/v1/idps/{idp}/mappers",
    action=Action.ACCESS_READ,
    answer=wire.MappersAnswer,
    summary="Get the claims that an identity provider is read by",
)
async def mappers(idp: str, plane: Plane, caller: Caller) -> wire.MappersAnswer:
    row = await plane.read(lambda connection: known(connection, idp))
    return mappers_of(row)


@routes.put(
    "/api/v1/idps/{idp}/mappers",
    action=Action.ACCESS_WRITE,
    answer=wire.MappersAnswer,
    summary="Change the claims that an identity provider is read by",
)
async def update_mappers(idp: str, request: Request, plane: Plane, caller: Caller, body: wire.Mappers) -> Response:
    """They hold from the next sign-in or token renewal of each user on."""
    _require_administrator(caller)

    def unit(connection: Connection) -> ActionResult:
        document = parse_json(known(connection, idp).document.encode())
        changed = {**document, "mappers": body.model_dump()}
        store.change_provider(connection, idp, document=compact(changed), updated_at=plane.now())
        return _done("update", idp, mappers_of(known(connection, idp)))

    return await plane.perform(request, caller, unit)


@routes.post(
    "/api/v1/idps/{idp}/test",
    action=Action.ACCESS_WRITE,
    answer=wire.ProviderTest,
    summary="Check that an identity provider answers and can be used",
)
async def test_provider(idp: str, request: Request, plane: Plane, caller: Caller) -> wire.ProviderTest:
    row = await plane.read(lambda connection: known(connection, idp))
    checks: list[wire.ProviderCheck] = []
    try:
        async for each in _checks(plane, row):
            checks.append(wire.ProviderCheck(what=each))
    except ProviderError as error:
        problem = error.problem
        checks.append(wire.ProviderCheck(what=problem.what, problem=problem.code, fix=problem.fix))
    return wire.ProviderTest(alias=idp, works=all(each.problem is None for each in checks), checks=checks)


async def _checks(plane: Plane, row: Any) -> AsyncIterator[str]:
    """What works, one after the other. Raises `ProviderError`."""
    client = ProviderClient()  # nothing that was found earlier
    settings = provider_settings(plane, row)
    if settings.saml is not None:
        described = await client.saml_metadata(plane, settings.saml)
        yield f"{settings.saml.metadata_url or 'the stored metadata'} is that of {described.issuer}"
        yield f"it has signing certificates: {len(described.certificates)}"
    if settings.oidc is not None:
        yield "the client secret can be decrypted"
        metadata = await client.metadata(plane, settings.oidc.discovery_url)
        yield f"{settings.oidc.discovery_url} is that of {metadata.issuer}"
        keys = await client.keys(plane, metadata)
        yield f"{metadata.jwks_uri} has keys: {len(keys.content.keys)}"


@routes.post(
    "/api/v1/idps/{idp}/links",
    action=Action.ACCESS_WRITE,
    status=204,
    summary="Let an account of an identity provider sign in as an existing user",
)
async def link_account(
    idp: str, request: Request, plane: Plane, caller: Caller, body: wire.ProviderLinkRequest
) -> Response:
    """Needed where a user with the same email address exists: accounts are never merged by their address."""
    caller.require_no_key()

    def unit(connection: Connection) -> ActionResult:
        known(connection, idp)
        user = access_store.user(connection, body.user) or access_store.user_by_email(connection, body.user)
        if user is None:
            raise unknown("user", body.user)
        check_not_above(connection, caller, user.id, SubjectType.USER)
        end_sessions(connection, store.sessions(connection, idp, subject=body.subject))
        store.put_account(connection, idp, body.subject, user.id, UnixIdentity().text(), plane.now())
        return ActionResult(action="update", entity_type="user", entity_id=user.id, entity_name=user.email, status=204)

    return await plane.perform(request, caller, unit)


def _end_unconfirmed_keys(connection: Connection, plane: Plane, user: str) -> None:
    """End the sessions of access keys whose owner has no account at a provider any more."""
    until = confirmed_until(connection, plane.settings, user)
    if until is not None and until <= plane.now():
        for key in program_store.keys(connection, user):
            end_key_sessions(connection, key.id)


def _require_administrator(caller: Caller) -> None:
    """A provider says who its users are and what groups they are in, so that its owner may do everything."""
    caller.require_no_key()
    if rbac.lacking(caller.grants, rbac.EVERYTHING, ScopeType.TENANT):
        raise denied("only a system administrator may add, change or delete identity providers", "ask one")


def _is_same_client(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return all(before.get(name) == after.get(name) for name in ("discoverDocumentUrl", "clientId"))


def known(connection: Connection, alias: str) -> Any:
    row = store.provider(connection, alias)
    if row is None:
        raise unknown("identity provider", alias)
    return row


BLANK: Mapping[ProviderType, Mapping[str, Any]] = {
    ProviderType.OIDC: {"scopes": None, "mandatoryClaim": None, "mappers": {}},
    ProviderType.SAML: {"fileName": None, "entityId": None, "mappers": {}},
}
"""What is stored of a new provider where its request says nothing."""


def _completed(said: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored: as the request says, else as it was."""
    file, name = MetadataType.FILE.value, "metadataXmlType"
    if said.get(name) == file and "metadata" not in said and before.get(name) != file:
        raise refused(422, "idp.incomplete", "the metadata file is missing", "send its text", METADATA_FILE)
    return {**before, **said}


async def _document(plane: Plane, body: wire.IdentityProviderRequest) -> dict[str, Any]:
    """What a request says, once the provider answers as it says; without what is left out."""
    is_said = "mappers" in body.model_fields_set
    mapped = {"mappers": body.mappers.model_dump() if body.mappers is not None else {}} if is_said else {}
    match body.type:
        case ProviderType.OIDC if body.oidc_data is not None:
            return {**await _oidc_document(plane, body.oidc_data), **mapped}
        case ProviderType.OIDC:
            raise refused(422, "idp.incomplete", "an OIDC provider needs oidcData", "send it", "oidcData")
        case ProviderType.SAML if body.saml_data is not None:
            return {**await _saml_document(plane, body.saml_data), **mapped}
        case ProviderType.SAML:
            raise refused(422, "idp.incomplete", "a SAML provider needs samlData", "send it", "samlData")
        case _:
            what = f"identity providers of type {body.type.value} are not supported"
            raise refused(422, "idp.type", what, "use oidc: OpenShift can be reached by it", "type")


async def _oidc_document(plane: Plane, said: wire.OidcRequest) -> dict[str, Any]:
    url, place, client = said.discover_document_url, "oidcData.discoverDocumentUrl", ProviderClient()
    await _check_url(plane, url, place)
    try:
        await client.keys(plane, await client.metadata(plane, url))
    except ProviderError as error:
        raise _unusable(error, place) from error
    document: dict[str, Any] = {"clientId": said.client_id, "discoverDocumentUrl": url}
    if "scopes" in said.model_fields_set:
        document["scopes"] = said.scopes
    if "mandatory_claim" in said.model_fields_set:
        claim = said.mandatory_claim
        document["mandatoryClaim"] = claim.model_dump() if claim is not None else None
    return document


async def _saml_document(plane: Plane, said: wire.SamlRequest) -> dict[str, Any]:
    is_url = said.metadata_xml_type is MetadataType.URL
    url = said.metadata_xml_url if is_url else None
    document: dict[str, Any] = {"metadataXmlType": said.metadata_xml_type.value, "metadataXmlUrl": url}
    if said.entity_id:
        document["entityId"] = said.entity_id
    if is_url or said.file_name:
        document["fileName"] = None if is_url else said.file_name
    if is_url:
        document["metadata"] = await _metadata_at(plane, url)
    elif said.metadata_xml_file:
        document["metadata"] = _metadata_in(plane, said.metadata_xml_file)
    return document


async def _metadata_at(plane: Plane, url: str | None) -> dict[str, Any]:
    place, now_s = "samlData.metadataXmlUrl", plane.now() // SECOND_MS
    if not url:
        raise refused(422, "idp.incomplete", "the URL of the metadata is missing", "send it", place)
    await _check_url(plane, url, place)
    try:
        read = partial(saml.read_metadata, now_s=now_s)
        return metadata_document(await ProviderClient().fetched(plane, url, read, SAML_METADATA))
    except ProviderError as error:
        raise _unusable(error, place) from error


METADATA_FILE = "samlData.metadataXmlFile"


def _metadata_in(plane: Plane, text: str) -> dict[str, Any]:
    place = METADATA_FILE
    try:
        content = text.encode() if text.lstrip("\ufeff \t\r\n").startswith("<") else base64.b64decode(text)
        return metadata_document(saml.read_metadata(content, plane.now() // SECOND_MS))
    except ValueError as error:
        what = "the metadata file is neither XML nor base64"
        raise refused(422, "idp.metadata", what, "send the text of the file", place) from error
    except ProviderError as error:
        raise _unusable(error, place) from error


def _named(request: Request, alias: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """With the name under which a SAML provider knows this platform: by default the address of our metadata."""
    if "entityId" not in document:
        return dict(document)
    return {**document, "entityId": document["entityId"] or base_address(request) + provider_path(alias, "metadata")}


async def _check_url(plane: Plane, url: str, place: str) -> None:
    problem = outbound.check_url(url, await outbound_rules(plane))
    if problem is not None:
        raise refused(422, problem.code, problem.what, problem.fix, place)


def _unusable(error: ProviderError, place: str) -> Refused:
    found = error.problem
    return refused(422, found.code, found.what, found.fix, place)


def _shown(request: Request, plane: Plane, row: Any) -> wire.IdentityProvider:
    document, here, key = parse_json(row.document.encode()), base_address(request), readable_key(plane)
    is_oidc = row.type == ProviderType.OIDC.value
    return wire.IdentityProvider(
        alias=row.alias,
        type=ProviderType(row.type),
        redirect_uri=here + provider_path(row.alias, "callback" if is_oidc else "acs"),
        oidc_data=_shown_oidc(row, document, here) if is_oidc else None,
        saml_data=None if is_oidc else _shown_saml(row, document, here),
        mappers=mappers_of(row),
        status="Ready" if key is not None and row.key_id == key.id else "Unreadable",
        created_by=row.created_by,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
    )


def _shown_oidc(row: Any, document: dict[str, Any], here: str) -> wire.OidcAnswer:
    url = document["discoverDocumentUrl"]
    return wire.OidcAnswer(
        client_id=document["clientId"],
        discover_document_url=url,
        issuer=url.removesuffix(oidc.WELL_KNOWN),
        scopes=list(oidc.scopes_of(document["scopes"])),
        mandatory_claim=mandatory_claim_of(row),
        logout_uri=here + provider_path(row.alias, "logout"),
    )


def _shown_saml(row: Any, document: dict[str, Any], here: str) -> wire.SamlAnswer:
    described = stored_metadata(document)
    return wire.SamlAnswer(
        metadata_xml_type=MetadataType(document["metadataXmlType"]),
        metadata_xml_url=document["metadataXmlUrl"],
        file_name=document["fileName"],
        issuer=described.issuer,
        single_sign_on_service_url=described.sign_in_url,
        signing_certificate=described.certificates[0],
        entity_id=document["entityId"],
        service_provider_metadata_url=here + provider_path(row.alias, "metadata"),
    )


def _done(action: str, alias: str, body: Answer | None = None, status: int = 200) -> ActionResult:
    return ActionResult(
        body=body, status=status, action=action, entity_type="identity-provider", entity_id=alias, entity_name=alias
    )


def _free_name(kind: str, there: set[str]) -> str:
    return next(name for name in (kind, *(f"{kind}-{n}" for n in range(2, PROVIDERS_MAX + 3))) if name not in there)


def _key(plane: Plane) -> SealingKey:
    try:
        return plane.key_file.key()
    except KeyUnusable as error:
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error
