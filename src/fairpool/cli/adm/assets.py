"""`runai-adm environment`, `compute` and `datasource`: list, get, create, update, delete.

Their values are flags of `runai submit`: an environment takes those about the container, a compute resource those about
resources, a data source one mount.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fairpool.api.asset_paths import DATASOURCE_STORAGE
from fairpool.api.record import document
from fairpool.cli.adm.asset_flags import (
    asked_scope,
    asset_found,
    check_name,
    in_scope,
    require_change,
    scope_flags,
    stored,
    values_of,
)
from fairpool.cli.failure import failure
from fairpool.cli.runai import submission
from fairpool.cli.runai.assets import NOUNS, all_assets, list_command, output_option, scope_text, show_asset
from fairpool.cli.runai.flags import Command, GlobalOptions, asset_names
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.submit import SubmitCommand
from fairpool.cli.runai.submit import submit as plain
from fairpool.cli.screen import printable

SECTION = "Asset"
TAKEN = {
    "environment": (
        *("image", "image_pull_policy", "local_image", "command", "command_replaced", "args", "environment"),
        *("working_dir", "python_env", "stdin", "tty", "port", "service_type", "add_capability", "host_ipc"),
        *("host_network", "create_home_dir", "prevent_privilege_escalation", "allow_privilege_escalation"),
    ),
    "compute": (
        *("gpu", "gpu_memory", "mig_profile", "cpu", "cpu_limit", "memory", "memory_limit", "large_shm"),
        "extended_resource",
    ),
    "datasource": (
        *("volume", "nfs_server", "mount_propagation", "pvc", "pvc_exists", "new_pvc", "git_sync", "s3"),
        *("configmap_volume", "secret_volume"),
    ),
}
"""The flags of `runai submit` that each takes."""
CONNECTIONS = {"Ingress": "ExternalUrl"}


def list_of(kind: str) -> Command:
    found = list_command(kind, "list")
    found.epilog = f"Example: runai-adm {NOUNS[kind].command} list"
    return found


def get_of(kind: str) -> Command:
    noun = NOUNS[kind]

    @in_scope
    @click.pass_obj
    def get_asset(options: GlobalOptions, /, name: str, output: str | None, **scope: str | None) -> None:
        with Session(options).connected() as client:
            found = asset_found(client, all_assets(client, kind), noun.noun, name, scope)
        show_asset(found, output)

    return _command(kind, "get", get_asset, f"Show one {noun.noun} with its values.", output_option())


def delete_of(kind: str) -> Command:
    noun = NOUNS[kind]

    @in_scope
    @click.pass_obj
    def delete_asset(options: GlobalOptions, /, name: str, **scope: str | None) -> None:
        with Session(options).connected() as client:
            found = asset_found(client, all_assets(client, kind), noun.noun, name, scope)
            stored(lambda: client.delete_asset(found.kind, found.id))
        _done(kind, name, found, "deleted")

    text = f"Delete one {noun.noun}. Jobs that were submitted with it stay as they are."
    return _command(kind, "delete", delete_asset, text)


def _command(kind: str, verb: str, callback: Any, text: str, *more: click.Parameter) -> Command:
    """A command that names an asset."""
    name = click.Argument(["name"], shell_complete=asset_names(kind))
    scope = list(reversed(getattr(callback, "__click_params__", [])))
    return Command(
        verb,
        params=[name, *scope, *more],
        callback=callback,
        help=text,
        example=f"runai-adm {NOUNS[kind].command} {verb} NAME",
        with_project=False,
    )


def create_of(kind: str) -> Command:
    noun = NOUNS[kind]

    @click.pass_context
    def create_asset(ctx: click.Context, /, **asked: Any) -> None:
        options: GlobalOptions = ctx.obj
        values_of(ctx, asked)
        name = check_name(asked["name"], noun.noun)
        said, spec = _spec(kind, asked)
        meta = {"name": name, **asked_scope(asked), "description": asked["description"] or ""}
        with Session(options).connected() as client:
            made = stored(lambda: client.create_asset(said, {"meta": meta, "spec": spec}))
        _done(kind, name, made, "created")

    text = f"Create one {noun.noun}. Without --project, --department or --cluster it is for all projects."
    return _with_values(kind, "create", create_asset, text)


def update_of(kind: str) -> Command:
    noun = NOUNS[kind]

    @click.pass_context
    def update_asset(ctx: click.Context, /, **asked: Any) -> None:
        options: GlobalOptions = ctx.obj
        require_change(ctx)
        values_of(ctx, asked)
        name = check_name(asked["name"], noun.noun)
        with Session(options).connected() as client:
            found = asset_found(client, all_assets(client, kind), noun.noun, name, asked)
            spec = _changed(kind, found, asked)
            description = asked["description"] if asked["description"] is not None else found.meta.description or ""
            body = {"meta": {"name": found.meta.name, "description": description}, "spec": spec}
            stored(lambda: client.replace_asset(found.kind, found.id, body, found.revision))
        _done(kind, name, found, "updated")

    text = f"Change one {noun.noun}. Values that you do not name stay; jobs that were submitted with it do too."
    return _with_values(kind, "update", update_asset, text)


def _with_values(kind: str, verb: str, callback: Any, text: str) -> Command:
    flags = [each for each in plain.params if each.name in TAKEN[kind]]
    name = click.Argument(["name"], required=False)
    kind_of_command = SubmitCommand if kind == "environment" else Command
    return kind_of_command(
        verb,
        params=[name, *flags, *scope_flags(SECTION)],
        callback=callback,
        help=text,
        example=f"runai-adm {NOUNS[kind].command} {verb} NAME {NOUNS[kind].example}",
        with_project=False,
    )


def _done(kind: str, name: str, found: Any, verb: str) -> None:
    noun = NOUNS[kind].noun.capitalize()
    click.echo(f"{noun} {printable(name)} of {printable(scope_text(found))} {verb} successfully.")


# --- from flags to values ------------------------------------------------------------------------------------------


def _changed(kind: str, found: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an asset with those that flags say."""
    before: dict[str, Any] = document(found.spec)
    said, spec = _values(kind, asked)
    if not spec:
        return before
    if kind == "datasource":
        if said != found.kind:
            what = f"data source {found.meta.name} is of the kind {found.kind}, not {said}"
            raise failure("flag.kind", what, "create another data source")
        return spec
    inside = {"compute": before} if kind == "compute" else before
    now = {"compute": spec} if kind == "compute" else spec
    merged: dict[str, Any] = submission.over({"spec": inside}, {"spec": now}, asked)["spec"]
    return merged["compute"] if kind == "compute" else merged


def _spec(kind: str, asked: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of the asset in the API, and its values; raises a failure if there are none."""
    said, spec = _values(kind, asked)
    if not spec:
        noun = NOUNS[kind]
        raise failure("flag.no_value", f"the {noun.noun} has no values", f"give it some, such as {noun.example}")
    return said, spec


def _values(kind: str, asked: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    spec: dict[str, Any] = submission.document(asked, project="", cluster=None, command_line="")["spec"]
    if kind == "compute":
        return kind, spec.get("compute", {})
    return _mount(spec.get("storage", {})) if kind == "datasource" else (kind, _environment(spec))


def _environment(spec: Mapping[str, Any]) -> dict[str, Any]:
    apart = ("compute", "storage", "security", "ports", "exposedUrls")
    own = {name: value for name, value in spec.items() if name not in apart}
    tools = [
        *(_tool(each["container"], each.get("serviceType", "ClusterIP")) for each in spec.get("ports", ())),
        *(_tool(each["container"], "ExternalUrl") for each in spec.get("exposedUrls", ())),
    ]
    return {**own, **spec.get("security", {}), **({"connections": tools} if tools else {})}


def _tool(port: int, service_type: str) -> dict[str, Any]:
    kind = CONNECTIONS.get(service_type, service_type)
    info = {"toolType": "custom", "connectionType": kind, "containerPort": port}
    return {"name": f"port-{port}", "internalToolInfo": info}


def _mount(storage: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    mounts = [(name, each) for name, found in storage.items() for each in found]
    if len(mounts) > 1:
        raise failure("flag.mounts", f"{len(mounts)} mounts are given, and a data source is one", "create one for each")
    kinds = {where: kind for kind, where in DATASOURCE_STORAGE.items()}
    return (kinds[mounts[0][0]], mounts[0][1]) if mounts else ("", {})
