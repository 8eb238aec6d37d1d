"""`runai-adm cluster`: list, get, create, update, token, delete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    from fairpool.api.nodes import ClusterAnswer

TOKEN_FILE = flag(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the token to FILE, which only you can read, instead of printing it.",
)


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
@click.pass_obj
def create_cluster(options: GlobalOptions, name: str, token_file: Path | None) -> None:
    """Add a cluster. Its token is shown once: start the cluster with `fairpool cluster --token-file FILE`."""
    check_name(name, PROJECT_NAME_MAX)
    with SecretFile(token_file, "--token-file") as written, Session(options).connected() as client:
        made = client.create_cluster({"name": name})
        written.keep(made.token)
    click.echo(f"Cluster {printable(name)} created successfully.", err=token_file is None)
    written.print_or_name("token", made.token)


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
@click.pass_obj
def token_cluster(options: GlobalOptions, name: str, token_file: Path | None) -> None:
    """Make a new token for a cluster. Earlier tokens stop working at once."""
    with SecretFile(token_file, "--token-file", replaces=True) as written, Session(options).connected() as client:
        made = client.new_cluster_token(find_named("cluster", name, client.clusters()).uuid)
        written.keep(made.token)
    click.echo(f"Earlier tokens of cluster {printable(name)} no longer work.", err=True)
    written.print_or_name("token", made.token)


@command("delete", "runai-adm cluster delete east", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_cluster(options: GlobalOptions, name: str) -> None:
    """Remove a cluster that has no projects. Its token stops working at once."""
    with Session(options).connected() as client:
        client.delete_cluster(find_named("cluster", name, client.clusters()).uuid)
    click.echo(f"Cluster {printable(name)} deleted successfully.")
