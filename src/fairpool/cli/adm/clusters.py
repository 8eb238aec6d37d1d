"""`runai-adm cluster`: list, get, create, update, token, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairpool.api.limits import PROJECT_NAME_MAX
from fairpool.api.record import document
from fairpool.cli.adm.names import check_name, find_named
from fairpool.cli.adm.secret_file import SecretFile
from fairpool.cli.failure import failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_one
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.client import Client
    from fairpool.api.nodes import ClusterAnswer, NewCluster

C = TypeVar("C", bound=Callable[..., Any])

TOKEN_FILE = flag(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the token to FILE, which only you can read, instead of printing it.",
)
KUBERNETES = "Kubernetes"
"""The section of the flags for the file that `kubectl apply` takes."""


def operator_flags(decorated: C) -> C:
    """The file that connects a Kubernetes cluster, and what is in it."""
    options: list[Callable[[C], C]] = [
        flag(
            "--operator-file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            section=KUBERNETES,
            help="Write runai-operator-NAME.yaml for `kubectl apply -f FILE`, with the token in it.",
        ),
        flag(
            "--control-url",
            metavar="URL",
            default="",
            section=KUBERNETES,
            help="Address of the control plane, as pods of that cluster reach it. Default: its public URL.",
        ),
        flag(
            "--ca-file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            section=KUBERNETES,
            help="Certificate of the private authority that signed the control plane's certificate: a PEM file.",
        ),
        flag(
            "--registry",
            metavar="NAME:PORT",
            default="",
            section=KUBERNETES,
            help="Registry that the image of Fairpool is pulled from.",
        ),
        flag(
            "--pull-secret",
            metavar="NAME",
            default="",
            section=KUBERNETES,
            help="Secret in namespace runai with credentials of that registry.",
        ),
    ]
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


@command("list", "runai-adm cluster list", with_project=False)
@output_flag
@click.pass_obj
def list_clusters(options: GlobalOptions, output: str | None) -> None:
    """List clusters, and whether they are connected."""
    with Session(options).connected() as client:
        found = sorted(client.clusters(), key=lambda each: each.name)
    show(output, cluster_columns(), found, documents=document(found))


def cluster_columns() -> list[Column[ClusterAnswer]]:
    return [
        Column("NAME", lambda each: each.name),
        Column("STATUS", lambda each: each.status.state),
        Column("LAST HEARD", lambda each: ages.local(each.last_liveness) if each.last_liveness else "never"),
        Column("CREATED", lambda each: each.created_at, wide=True),
        Column("ID", lambda each: each.uuid, wide=True),
    ]


@command("get", "runai-adm cluster get east", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_cluster(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a cluster."""
    with Session(options).connected() as client:
        found = find_named("cluster", name, client.clusters())
    show_one(output, found, [(column.heading, column.cell(found)) for column in cluster_columns()])


@command("create", "runai-adm cluster create east --token-file east.token", with_project=False)
@click.argument("name")
@TOKEN_FILE
@operator_flags
@click.pass_obj
def create_cluster(
    options: GlobalOptions, /, name: str, token_file: Path | None, operator_file: Path | None, **operator: Any
) -> None:
    """Add a cluster. Its token is shown once: start the cluster with `fairpool cluster --token-file FILE`, or in
    Kubernetes with the file of --operator-file."""
    check_name(name, PROJECT_NAME_MAX)
    values = _operator_values(operator_file, operator)
    with (
        SecretFile(token_file, "--token-file") as written,
        SecretFile(operator_file, "--operator-file") as manifest,
        Session(options).connected() as client,
    ):
        made = client.create_cluster({"name": name})
        written.keep(made.token)
        _keep_manifest(manifest, client, made, operator_file, values)
    is_printed = token_file is None and operator_file is None
    click.echo(f"Cluster {printable(name)} created successfully.", err=is_printed)
    _say_where(written, made.token, token_file, operator_file)


def _operator_values(file: Path | None, given: Mapping[str, Any]) -> dict[str, str]:
    """The body of the request for the file, without the token."""
    if file is None:
        if any(given.values()):
            what = "--control-url, --ca-file, --registry and --pull-secret have no effect without --operator-file"
            raise failure("flag.operator_file", what, "add --operator-file runai-operator-NAME.yaml")
        return {}
    certificate = ""
    if given["ca_file"] is not None:
        try:
            certificate = given["ca_file"].expanduser().read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            what = f"--ca-file: {printable(str(given['ca_file']))} cannot be read: {printable(str(error))}"
            raise failure("flag.ca_file", what, "pass a certificate as a PEM file") from error
    return {
        "controlUrl": given["control_url"],
        "caCertificate": certificate,
        "imageRegistry": given["registry"],
        "imagePullSecret": given["pull_secret"],
    }


def _keep_manifest(
    manifest: SecretFile, client: Client, made: NewCluster, file: Path | None, values: Mapping[str, str]
) -> None:
    if file is not None:
        manifest.keep(client.operator_file(made.uuid, {**values, "token": made.token}).content.rstrip("\n"))


def _say_where(written: SecretFile, token: str, token_file: Path | None, operator_file: Path | None) -> None:
    if token_file is not None or operator_file is None:
        written.print_or_name("token", token)
    if operator_file is not None:
        click.echo(f"Connect it with: kubectl apply -f {printable(str(operator_file))}")


@command("update", "runai-adm cluster update east --name far-east", with_project=False)
@click.argument("name")
@flag("--name", "renamed", metavar="NAME", help="New name of the cluster.")
@flag("--domain", metavar="NAME", help="Domain name of the cluster, shown to users.")
@click.pass_obj
def update_cluster(options: GlobalOptions, name: str, renamed: str | None, domain: str | None) -> None:
    """Change the name or domain of a cluster. Its token and its projects stay as they are."""
    if renamed is None and domain is None:
        raise failure("command.no_change", "nothing to change", "see `runai-adm cluster update --help`")
    if renamed is not None:
        check_name(renamed, PROJECT_NAME_MAX)
    with Session(options).connected() as client:
        found = find_named("cluster", name, client.clusters())
        said = {"name": renamed or name, "domain": found.domain if domain is None else domain, "version": found.version}
        client.replace_cluster(found.uuid, said, found.revision)
    click.echo(f"Cluster {printable(renamed or name)} updated successfully.")


@command("token", "runai-adm cluster token east --token-file east.token", with_project=False)
@click.argument("name")
@TOKEN_FILE
@operator_flags
@click.pass_obj
def token_cluster(
    options: GlobalOptions, /, name: str, token_file: Path | None, operator_file: Path | None, **operator: Any
) -> None:
    """Make a new token for a cluster. Earlier tokens stop working at once."""
    values = _operator_values(operator_file, operator)
    with (
        SecretFile(token_file, "--token-file", replaces=True) as written,
        SecretFile(operator_file, "--operator-file", replaces=True) as manifest,
        Session(options).connected() as client,
    ):
        made = client.new_cluster_token(find_named("cluster", name, client.clusters()).uuid)
        written.keep(made.token)
        _keep_manifest(manifest, client, made, operator_file, values)
    click.echo(f"Earlier tokens of cluster {printable(name)} no longer work.", err=True)
    _say_where(written, made.token, token_file, operator_file)


@command("delete", "runai-adm cluster delete east", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_cluster(options: GlobalOptions, name: str) -> None:
    """Remove a cluster that has no projects. Its token stops working at once."""
    with Session(options).connected() as client:
        client.delete_cluster(find_named("cluster", name, client.clusters()).uuid)
    click.echo(f"Cluster {printable(name)} deleted successfully.")
