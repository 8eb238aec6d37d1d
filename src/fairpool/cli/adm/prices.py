"""`runai-adm price`: list, set and delete the prices of GPUs, CPU cores and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.failure import failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.accounting import Price

UNITS = {"gpu": "A GPU", "cpu": "A CPU core", "memory": "A GiB of memory"}
_type_flag = flag(
    "--gpu-type", metavar="TYPE", help="Only for GPUs of this type, as in `runai list nodes`, without `simulated`."
)


@command("list", "runai-adm price list", with_project=False)
@output_flag
@click.pass_obj
def list_prices(options: GlobalOptions, output: str | None) -> None:
    """List prices, the latest first. Each holds until a later one of the same resource and type."""
    with Session(options).connected() as client:
        found = client.prices()
    columns: list[Column[Price]] = [
        Column("ID", lambda each: each.id, wide=True),
        Column("RESOURCE", lambda each: each.resource),
        Column("GPU TYPE", lambda each: each.gpu_type or ("any" if each.resource == "gpu" else "-")),
        Column("PRICE PER HOUR", lambda each: each.price),
        Column("FROM", lambda each: ages.utc(each["from"]), spare=1),  # type: ignore[index]
        Column("SET BY", lambda each: each.created_by, least=12),
    ]
    show(output, columns, found, documents=document(found))


@command("set", "runai-adm price set gpu 2.50 --gpu-type NVIDIA-A100-SXM4-80GB", with_project=False)
@click.argument("resource", type=click.Choice(list(UNITS)))
@click.argument("price")
@_type_flag
@flag("--from", "start", metavar="TIME", help="From this full hour on, also in the past (default: the present hour).")
@click.pass_obj
def set_price(options: GlobalOptions, resource: str, price: str, gpu_type: str | None, start: str | None) -> None:
    """Set the price of one GPU, CPU core or GiB of memory for an hour."""
    body = {"resource": resource, "price": price, "gpuType": gpu_type or ""}
    if start is not None:
        body["from"] = start
    with Session(options).connected() as client:
        made = client.set_price(body)
    since = ages.utc(made["from"])  # type: ignore[index]
    named = f"{UNITS[resource]} {printable(gpu_type)}" if gpu_type else UNITS[resource]
    click.echo(f"{named} costs {made.price} an hour from {since} on.")


@command("delete", "runai-adm price delete gpu --gpu-type NVIDIA-A100-SXM4-80GB", with_project=False)
@click.argument("resource", type=click.Choice(list(UNITS)))
@_type_flag
@click.pass_obj
def delete_price(options: GlobalOptions, resource: str, gpu_type: str | None) -> None:
    """Delete the latest price. The one before it holds again."""
    with Session(options).connected() as client:
        mine = [each for each in client.prices() if (each.resource, each.gpu_type or "") == (resource, gpu_type or "")]
        if not mine:
            raise failure("price.unknown", f"{resource} has no price", "see `runai-adm price list`")
        client.delete_price(mine[0].id)
    click.echo(f"The price of {resource} from {ages.utc(mine[0]['from'])} on was deleted.")  # type: ignore[index]
