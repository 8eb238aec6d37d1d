"""`runai-adm credential`: list, get, create, update, delete; and `set|remove secret NAME --cluster-wide`.

Values come from files, standard input or a prompt, never from an argument: other users see those.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client, Refused
from fairpool.api.limits import SECRET_KEY_PATTERN, SECRET_MAX_BYTES, TEMPLATE_NAME_PATTERN
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai.credentials import credential_called, draw_credentials, scope_of, show_credential
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import printable
from fairpool.model.secret import KEYS, SHOWN, CredentialKind

if TYPE_CHECKING:
    from fairpool.api.credentials import StoredCredential

STDIN = "-"
SCOPES = ("project", "department", "cluster")
TYPES = {
    **{kind.value: kind for kind in CredentialKind},
    "generic": CredentialKind.GENERIC,
    "registry": CredentialKind.REGISTRY,
}
PROMPTS = {"password": "Password", "secretAccessKey": "Secret access key", "ngcApiKey": "API key"}
OPTIONS = {"user": "user", "url": "url", "accessKeyId": "access_key_id"}
NAME, KEY = re.compile(TEMPLATE_NAME_PATTERN), re.compile(SECRET_KEY_PATTERN)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _all_of(*decorators: Decorator) -> Decorator:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(decorators):
            function = each(function)
        return function

    return decorate


SCOPE = _all_of(
    flag("--project", "-p", metavar="NAME", help="The credential of this project."),
    flag("--department", metavar="NAME", help="The credential of this department."),
    flag("--cluster", metavar="NAME", help="The credential of this cluster."),
)
VALUES = _all_of(
    flag("--from-file", multiple=True, metavar="[KEY=]FILE", help="A key of a generic secret; - is stdin; repeatable."),
    flag("--from-env-file", metavar="FILE", help="Keys of a generic secret: a file of KEY=VALUE lines."),
    flag("--user", metavar="NAME", help="User name: password, docker-registry, git."),
    flag("--url", metavar="HOST", help="Host of the registry: docker-registry."),
    flag("--access-key-id", metavar="ID", help="Id of the key: access-key."),
    flag("--value-file", metavar="FILE", help="Password, token or secret key; - is stdin; default: prompt."),
    flag("--description", metavar="TEXT", help="Description."),
)


@command("list", "runai-adm credential list", with_project=False)
@output_flag
@click.pass_obj
def list_credentials(options: GlobalOptions, output: str | None) -> None:
    """List credentials. Their values are never shown."""
    with Session(options).connected() as client:
        draw_credentials(options, client.credentials(), output)


@command("get", "runai-adm credential get hf-token", with_project=False)
@click.argument("name")
@SCOPE
@output_flag
@click.pass_obj
def get_credential(options: GlobalOptions, /, name: str, output: str | None, **scope: str | None) -> None:
    """Show a credential and its keys, without their values."""
    with Session(options).connected() as client:
        found = _found(client, name, scope)
    show_credential(found, output)


@command("create", "runai-adm credential create hf-token -p team-a --from-file token=hf.txt", with_project=False)
@click.argument("name")
@flag(
    "--type",
    "kind",
    type=click.Choice(list(TYPES)),
    metavar="TYPE",
    default="generic-secret",
    help=f"Type of the credential: {', '.join(CredentialKind)}.",
)
@SCOPE
@VALUES
@click.pass_obj
def create_credential(options: GlobalOptions, /, name: str, kind: str, **asked: Any) -> None:
    """Create a credential. Pods of its scope refer to it: -e NAME=SECRET:CREDENTIAL,KEY or --secret-volume.

    Without --project, --department or --cluster it is for all projects.
    """
    if not NAME.fullmatch(name):
        fix = "use up to 63 letters, digits, _, . and -, such as hf-token"
        raise failure("flag.name", f"{name!r} is not a valid name of a credential", fix)
    meta = {"name": name, **_scope(asked), "description": asked["description"] or ""}
    of = TYPES[kind]
    spec = _spec(of, asked)
    with Session(options).connected() as client:
        made = _stored(lambda: client.create_credential(of.value, {"meta": meta, "spec": spec}))
    click.echo(f"Credential {printable(name)} of {printable(scope_of(made))} created successfully.")


@command("update", "runai-adm credential update hf-token --from-file token=new.txt", with_project=False)
@click.argument("name")
@SCOPE
@VALUES
@click.pass_obj
def update_credential(options: GlobalOptions, /, name: str, **asked: Any) -> None:
    """Replace the values of a credential, or its description. Pods that run keep the values they have."""
    only_text = asked["description"] is not None and not any(
        asked[each] for each in ("from_file", "from_env_file", "value_file", *OPTIONS.values())
    )
    with Session(options).connected() as client:
        found = _found(client, name, asked)
        known = {each: getattr(found.spec, field) for each, field in OPTIONS.items()}
        body = _body(found, asked["description"])
        if not only_text:
            body["spec"] = _spec(CredentialKind(found.kind), asked, known)
        _stored(lambda: client.replace_credential(found.kind, found.id, body, found.revision))
    click.echo(f"Credential {printable(name)} of {printable(scope_of(found))} updated successfully.")


@command("delete", "runai-adm credential delete hf-token", with_project=False)
@click.argument("name")
@SCOPE
@click.pass_obj
def delete_credential(options: GlobalOptions, /, name: str, **scope: str | None) -> None:
    """Delete a credential. Pods that run keep its values; pods that refer to it and are to start wait."""
    with Session(options).connected() as client:
        found = _found(client, name, scope)
        client.delete_credential(found.kind, found.id)
    click.echo(f"Credential {printable(name)} of {printable(scope_of(found))} deleted successfully.")


def cluster_wide(verb: str, text: str) -> click.Command:
    """`runai-adm set secret NAME --cluster-wide`, and `remove`."""
    is_set = verb == "set"

    @command("secret", f"runai-adm {verb} secret registry-login --cluster-wide", with_project=False)
    @click.argument("name")
    @flag("--cluster-wide", is_flag=True, help="In all projects, whatever its scope.")
    @SCOPE
    @click.pass_obj
    def secret(options: GlobalOptions, /, name: str, cluster_wide: bool, **scope: str | None) -> None:
        if not cluster_wide:
            raise failure("flag.cluster_wide", f"`{verb} secret` needs --cluster-wide", "add --cluster-wide")
        with Session(options).connected() as client:
            found = _found(client, name, scope)
            body = {**_body(found, None), "clusterWide": is_set}
            _stored(lambda: client.replace_credential(found.kind, found.id, body, found.revision))
        now = "can be used in all projects" if is_set else f"can be used in {scope_of(found)} only"
        click.echo(f"Credential {printable(name)} {printable(now)}.")

    secret.help = text
    return secret


# --- from flags to a request -----------------------------------------------------------------------------------------


def _scope(asked: Mapping[str, Any]) -> dict[str, str]:
    given = [name for name in SCOPES if asked[name]]
    if len(given) > 1:
        what = f"the scope is given twice, --{given[0]} and --{given[1]}"
        raise failure("flag.scope", what, "leave out all but one")
    return {"scope": given[0], f"{given[0]}Id": asked[given[0]]} if given else {"scope": "tenant"}


def _found(client: Client, name: str, asked: Mapping[str, Any]) -> StoredCredential:
    said = _scope(asked)
    scope_id = next((value for key, value in said.items() if key != "scope"), "")
    if said["scope"] == "cluster":
        scope_id = next((each.uuid for each in client.clusters() if scope_id in (each.name, each.uuid)), scope_id)
    return credential_called(client, name, f"{said['scope']} {scope_id}" if scope_id else None)


def _body(found: StoredCredential, description: str | None) -> dict[str, Any]:
    meta = found.meta
    ids = {"projectId": meta.project_id, "departmentId": meta.department_id, "clusterId": meta.cluster_id}
    text = meta.description if description is None else description
    kept = {name: value for name, value in ids.items() if value}
    return {"meta": {"name": meta.name, "scope": str(meta.scope), "description": text, **kept}}


def _spec(
    kind: CredentialKind, asked: Mapping[str, Any], known: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """The values, read from where the flags say; raises a failure."""
    if kind is CredentialKind.GENERIC:
        _refuse_flags(asked, ("value_file", *OPTIONS.values()), kind)
        return _generic(asked["from_file"], asked["from_env_file"])
    unfit = [option for key, option in OPTIONS.items() if key not in KEYS[kind]]
    _refuse_flags(asked, ("from_file", "from_env_file", *unfit), kind)
    spec: dict[str, Any] = {}
    for key in KEYS[kind]:
        if key in SHOWN:
            value = asked[OPTIONS[key]] or (known or {}).get(key)
            if value is None and (kind, key) != (CredentialKind.GIT, "user"):
                option = f"--{OPTIONS[key].replace('_', '-')}"
                raise failure("flag.missing", f"a credential of type {kind.value} needs {option}", f"add {option}")
            spec |= {key: value} if value is not None else {}
        else:
            spec[key] = _secret_text(asked["value_file"], PROMPTS[key])
    return spec


def _refuse_flags(asked: Mapping[str, Any], names: Sequence[str], kind: CredentialKind) -> None:
    for name in names:
        if asked[name]:
            option = f"--{name.replace('_', '-')}"
            what = f"{option} does not fit a credential of type {kind.value}"
            raise failure("flag.type", what, "leave it out, or choose another --type")


def _generic(files: Sequence[str], env_file: str | None) -> dict[str, Any]:
    values: dict[str, bytes] = {}
    for text in files:
        key, equals, place = text.partition("=")
        if not equals:
            key, place = Path(text).name, text
        _add(values, key, _read("--from-file", place), f"--from-file {text}")
    if env_file:
        for number, line in enumerate(_read("--from-env-file", env_file).decode("utf-8", "replace").splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            key, equals, value = line.partition("=")
            if not equals:
                what = f"--from-env-file {env_file}, line {number} is not KEY=VALUE"
                raise failure("flag.env_file", what, "write one KEY=VALUE per line")
            _add(values, key.strip(), value.encode(), f"--from-env-file {env_file}, line {number}")
    if not values:
        fix = "add --from-file KEY=FILE (- is stdin) or --from-env-file FILE"
        raise failure("flag.no_value", "a generic secret needs at least one key", fix)
    if sum(map(len, values.values())) > SECRET_MAX_BYTES:
        raise _too_large("the values")
    return _encoded(values)


def _encoded(values: Mapping[str, bytes]) -> dict[str, Any]:
    spec: dict[str, dict[str, str]] = {"data": {}, "binaryData": {}}
    for key, value in values.items():
        try:
            spec["data"][key] = value.decode()
        except UnicodeDecodeError:
            spec["binaryData"][key] = base64.b64encode(value).decode()
    return {name: values for name, values in spec.items() if values}


def _add(values: dict[str, bytes], key: str, value: bytes, where: str) -> None:
    if not KEY.fullmatch(key):
        fix = "use letters, digits, _, . and -, as in --from-file token=FILE"
        raise failure("flag.key", f"{where}: {key!r} is not a valid key", fix)
    if key in values:
        raise failure("flag.key_twice", f"{where}: the key {key} is given twice", "leave one out")
    values[key] = value


def _secret_text(place: str | None, prompt: str) -> str:
    if place is None and not sys.stdin.isatty():
        raise failure("flag.no_value", f"the {prompt.lower()} is missing", "add --value-file FILE (- is stdin)")
    if place is None:
        return str(click.prompt(prompt, hide_input=True, err=True))
    try:
        text = _read("--value-file", place).decode()
    except UnicodeDecodeError:
        raise failure("flag.value_file", f"--value-file {place} is not text", "use a text file") from None
    return text.removesuffix("\n").removesuffix("\r")


def _read(option: str, place: str) -> bytes:
    try:
        if place == STDIN:
            content = sys.stdin.buffer.read(SECRET_MAX_BYTES + 1)
        else:
            with Path(place).expanduser().open("rb") as file:
                content = file.read(SECRET_MAX_BYTES + 1)
    except OSError as error:
        what = f"{option}: {place} cannot be read: {(error.strerror or str(error)).lower()}"
        raise failure("flag.unreadable", what, "check the path") from error
    if len(content) > SECRET_MAX_BYTES:
        raise _too_large(f"{option}: {place}")
    return content


def _too_large(what: str) -> Failure:
    text = f"{what} {'has' if ':' in what else 'have'} more than {SECRET_MAX_BYTES} bytes, the most of a credential"
    return failure("flag.too_large", text, "put large files in a volume")


def _stored(call: Callable[[], StoredCredential]) -> StoredCredential:
    try:
        return call()
    except Refused as refusal:
        if refusal.status not in (409, 422):
            raise
        raise Failure([item.problem for item in refusal.items]) from refusal
