"""`runai-adm identity-provider`: list, get, create, update, delete, test, link, unlink."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.cli.failure import failure, meant
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_one
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.identity_providers import IdentityProvider

WELL_KNOWN = "/.well-known/openid-configuration"
MAPPED = {
    "email": "email",
    "groups": "groups",
    "uid": "uid",
    "gid": "gid",
    "supplementary_groups": "supplementaryGroups",
}


def _columns() -> list[Column[IdentityProvider]]:
    return [
        Column("NAME", lambda each: each.alias),
        Column("TYPE", lambda each: each.type),
        Column("ISSUER", lambda each: (each.oidc_data or each.saml_data).issuer, spare=1),  # type: ignore[union-attr]
        Column("STATUS", lambda each: each.status),
    ]


@command("list", "runai-adm identity-provider list", with_project=False)
@output_flag
@click.pass_obj
def list_providers(options: GlobalOptions, output: str | None) -> None:
    """List identity providers."""
    with Session(options).connected() as client:
        found = client.identity_providers()
    show(output, _columns(), found, documents=document(found))


@command("get", "runai-adm identity-provider get company", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_provider(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show an identity provider, with the addresses to register there. Its secret is never shown."""
    with Session(options).connected() as client:
        found = _known(client, name)
    facts = [(column.heading, column.cell(found)) for column in _columns()]
    facts.append(("REDIRECT URI", found.redirect_uri))
    if found.oidc_data is not None:
        facts.append(("LOGOUT URI", found.oidc_data.logout_uri))
        facts += [("CLIENT ID", found.oidc_data.client_id), ("SCOPES", " ".join(found.oidc_data.scopes))]
    if found.saml_data is not None:
        facts.append(("METADATA", found.saml_data.service_provider_metadata_url))
        facts.append(("ENTITY ID", found.saml_data.entity_id))
    facts += [(f"{name.upper()} FROM", str(found.mappers[wire])) for name, wire in _MAPPER_NAMES]  # type: ignore[index]
    facts.append(("CREATED", ages.local(found.created_at)))
    show_one(output, found, facts)


_MAPPER_NAMES = [(name.replace("_", " "), wire) for name, wire in MAPPED.items()]


FLAGS = (
    flag("--client-id", metavar="ID", help="OIDC: the ID under which the provider knows this platform."),
    flag("--client-secret-file", metavar="FILE", type=click.File("r"), help="OIDC: file with the secret; - for stdin."),
    flag("--discovery-url", metavar="URL", help="OIDC: the provider's issuer, or its discovery document."),
    flag("--scope", "scopes", multiple=True, metavar="NAME", help="OIDC: a scope to ask for; repeatable."),
    flag("--metadata-url", metavar="URL", help="SAML: the provider's metadata."),
    flag(
        "--metadata-file",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="SAML: the provider's metadata, in a file.",
    ),
    flag("--entity-id", metavar="ID", help="SAML: the ID under which the provider knows this platform."),
    flag("--email-claim", metavar="NAME", help="Claim or attribute with the email address."),
    flag("--groups-claim", metavar="NAME", help="Claim or attribute with the groups."),
    flag("--uid-claim", metavar="NAME", help="Claim or attribute with the numeric user ID."),
    flag("--gid-claim", metavar="NAME", help="Claim or attribute with the numeric group ID."),
    flag("--supplementary-groups-claim", metavar="NAME", help="Claim or attribute with further numeric group IDs."),
)


def _flags(function: Any) -> Any:
    for each in reversed(FLAGS):
        function = each(function)
    return function


@command(
    "create",
    "runai-adm identity-provider create corp --discovery-url https://id.example.com --client-id fairpool",
    with_project=False,
)
@click.argument("name")
@_flags
@click.pass_obj
def create_provider(options: GlobalOptions, /, name: str, **asked: Any) -> None:
    """Connect an identity provider: OIDC with --discovery-url, SAML with --metadata-url or --metadata-file."""
    body = {"name": name, **_body(asked, {})}
    with Session(options).connected() as client:
        made = client.create_identity_provider(body)
        found = _known(client, made.alias)
    click.echo(f"Identity provider {printable(made.alias)} created successfully.")
    click.echo(f"Register this redirect URI at the provider: {found.redirect_uri}")
    if found.oidc_data is not None:
        click.echo(f"And this back-channel logout URI: {found.oidc_data.logout_uri}")
    if found.saml_data is not None:
        click.echo(f"Or import this metadata there: {found.saml_data.service_provider_metadata_url}")


@command("update", "runai-adm identity-provider update company --groups-claim roles", with_project=False)
@click.argument("name")
@_flags
@click.pass_obj
def update_provider(options: GlobalOptions, /, name: str, **asked: Any) -> None:
    """Change an identity provider. What is not given stays as it is."""
    if not any(asked.values()):
        raise failure("command.no_change", "nothing to change", "see `runai-adm identity-provider update --help`")
    with Session(options).connected() as client:
        client.update_identity_provider(name, _body(asked, document(_known(client, name))))
    click.echo(f"Identity provider {printable(name)} updated successfully.")


@command("delete", "runai-adm identity-provider delete company", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_provider(options: GlobalOptions, name: str) -> None:
    """Delete an identity provider. The sessions of its users end, and they cannot sign in any more."""
    with Session(options).connected() as client:
        client.delete_identity_provider(_known(client, name).alias)
    click.echo(f"Identity provider {printable(name)} deleted successfully.")


@command("test", "runai-adm identity-provider test company", with_project=False)
@click.argument("name")
@click.pass_obj
def test_provider(options: GlobalOptions, name: str) -> None:
    """Check that an identity provider answers, and that its answers can be used."""
    with Session(options).connected() as client:
        found = client.test_identity_provider(_known(client, name).alias)
    for each in found.checks:
        click.echo(f"{'FAILED' if each.problem else 'ok':6} {printable(each.what)}")
        if each.fix:
            click.echo(f"       {printable(each.fix)}")
    if not found.works:
        raise failure("idp.test_failed", f"identity provider {name} cannot be used", "see above")


@command("link", "runai-adm identity-provider link company ann@example.com --subject f81d4fae", with_project=False)
@click.argument("name")
@click.argument("user")
@flag("--subject", required=True, metavar="ID", help="The provider's ID of the account; the refused sign-in shows it.")
@click.pass_obj
def link_account(options: GlobalOptions, name: str, user: str, subject: str) -> None:
    """Let an account of an identity provider sign in as an existing user."""
    with Session(options).connected() as client:
        client.link_account(_known(client, name).alias, {"user": user, "subject": subject})
    click.echo(f"The account {printable(subject)} of {printable(name)} now signs in as {printable(user)}.")


@command("unlink", "runai-adm identity-provider unlink company ann@example.com", with_project=False)
@click.argument("name")
@click.argument("user")
@click.pass_obj
def unlink_account(options: GlobalOptions, name: str, user: str) -> None:
    """Separate a user from their account at an identity provider. Sessions that began there end.

    The user keeps roles and workloads. With `runai-adm user reset-password` they get a password to sign in with.
    """
    with Session(options).connected() as client:
        client.unlink_account(_known(client, name).alias, user)
    click.echo(f"The account of {printable(user)} at {printable(name)} no longer signs in as this user.")


def _known(client: Client, name: str) -> IdentityProvider:
    found = {each.alias: each for each in client.identity_providers()}
    if name not in found:
        raise failure("idp.unknown", f"there is no identity provider {name}", hint=meant(name, found))
    return found[name]


def _body(asked: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The request; what is not asked for is as before."""
    is_saml = bool(asked["metadata_url"] or asked["metadata_file"]) or "samlData" in before
    if is_saml and asked["discovery_url"]:
        what = "--discovery-url is for OIDC, and --metadata-url and --metadata-file are for SAML"
        raise failure("idp.type", what, "use one of them")
    claims = {wire: asked[f"{name}_claim"] for name, wire in MAPPED.items()}
    mappers = {**before.get("mappers", {}), **{name: value for name, value in claims.items() if value}}
    data = _saml(asked, before.get("samlData", {})) if is_saml else _oidc(asked, before.get("oidcData", {}))
    return {"type": "saml" if is_saml else "oidc", "samlData" if is_saml else "oidcData": data, "mappers": mappers}


def _oidc(asked: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    url = asked["discovery_url"] or before.get("discoverDocumentUrl", "")
    secret = asked["client_secret_file"].readline().rstrip("\r\n") if asked["client_secret_file"] else ""
    client_id = asked["client_id"] or before.get("clientId", "")
    missing = [
        name
        for name, value in (
            ("--discovery-url", url),
            ("--client-id", client_id),
            ("--client-secret-file", secret or before),
        )
        if not value
    ]
    if missing:
        raise failure("idp.incomplete", f"an OIDC provider needs {', '.join(missing)}", "add it")
    scopes = list(asked["scopes"]) or before.get("scopes")
    return {
        "clientId": client_id,
        "discoverDocumentUrl": url if url.endswith(WELL_KNOWN) else url.rstrip("/") + WELL_KNOWN,
        **({"clientSecret": secret} if secret else {}),
        **({"scopes": scopes} if scopes else {}),
        **({"mandatoryClaim": before["mandatoryClaim"]} if before.get("mandatoryClaim") else {}),
    }


def _saml(asked: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    file, entity = asked["metadata_file"], asked["entity_id"] or before.get("entityId")
    named = {"entityId": entity} if entity else {}
    if file is not None:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise failure("idp.metadata", f"{file} cannot be read: {error}", "check the file") from error
        return {"metadataXmlType": "file", "metadataXmlFile": text, "fileName": file.name, **named}
    url = asked["metadata_url"] or before.get("metadataXmlUrl")
    if not url:
        return {"metadataXmlType": "file", **named}  # the stored one is kept
    return {"metadataXmlType": "url", "metadataXmlUrl": url, **named}
