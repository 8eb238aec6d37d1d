"""`rntop`: GPU usage of machines over SSH, on a full screen."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fairpool.cli.failure import ERROR, INTERRUPTED
from fairpool.cli.rntop.frames import MIB_IN, Look, frames
from fairpool.cli.rntop.gpu_sample import HostSample
from fairpool.cli.rntop.sampler import HOST, HostSampler, script, ssh_command
from fairpool.cli.runai.watching import redraw
from fairpool.cli.screen import Screen, printable

REFRESH_S = 1.0
HEADINGS = ("timestamp", "node", "index", "utilization", "memory_used", "memory_total")


class RntopCommand(click.Command):
    """Wrong usage is answered with the usage, and exit code 1."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **attributes: Any) -> Any:
        try:
            attributes["standalone_mode"] = False
            super().main(args, *rest, **attributes)
        except click.UsageError as error:
            if error.ctx is not None:
                click.echo(error.ctx.get_usage(), err=True)
            click.echo(printable(error.format_message()), err=True)
            sys.exit(ERROR)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails to flush at the end
            sys.exit(0)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            click.echo(printable(f"{where}{(error.strerror or str(error)).lower()}"), err=True)
            sys.exit(ERROR)
        sys.exit(0)


@click.command(
    "rntop",
    cls=RntopCommand,
    context_settings={"help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS]",
    epilog="Example: rntop -l root gpu-1 gpu-2",
)
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("-i", "--interval", type=click.FloatRange(1, 3600), default=5.0, help="Seconds between samples (5).")
@click.option("-l", "-u", "--username", metavar="USER", help="User on the machines that are named without one.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Append samples to a CSV file.")
@click.option("--output-every", type=click.IntRange(1), default=6, help="Write every so many refreshes (6).")
@click.option("--ssh", "transport", flag_value="ssh", default="ssh", help="Use the program ssh (the default).")
@click.option("--local", "transport", flag_value="local", help="Show this machine; the only host is localhost.")
@click.option("--libssh", "transport", flag_value="libssh", hidden=True)
@click.option("--ssh-config", metavar="FILE", help="Configuration file of ssh, instead of the user's own.")
@click.option("--mb", "unit", flag_value="MB", help="Memory in megabytes.")
@click.option("--mib", "unit", flag_value="MiB", default="MiB", help="Memory in mebibytes (the default).")
@click.option("--gb", "unit", flag_value="GB", help="Memory in gigabytes.")
@click.option("--gib", "unit", flag_value="GiB", help="Memory in gibibytes.")
@click.option("--color/--no-color", default=True, help="Colour the line of the cluster (on).")
@click.option("--gpu-index/--no-gpu-index", default=True, help="Show the index of each GPU (on).")
@click.option("--gpu-name/--no-gpu-name", default=False, help="Show the name of each GPU (off).")
@click.option("--gpu-uuid/--no-gpu-uuid", default=False, help="Show the UUID of each GPU (off).")
@click.option("--rounds", type=click.IntRange(1), hidden=True, help="Stop after this many refreshes.")
def main(hosts: tuple[str, ...], **asked: Any) -> None:
    """Show the GPU usage of machines over SSH, until Ctrl-C. HOST is [USER@]NAME.

    The machines need an SSH server and nvidia-smi, and nothing of Fairpool. ssh must be able to sign in without a
    question: by key or agent, with the host in known_hosts.
    """
    names = list(dict.fromkeys(hosts))
    _check(names, asked)
    samplers = [HostSampler(host, _command(host, asked), asked["interval"]) for host in names]
    record = CsvRecord(asked["output"], asked["output_every"]) if asked["output"] else None
    for each in samplers:
        each.start()

    def draw(screen: Screen) -> None:
        latest = [each.latest() for each in samplers]
        screen.lines += frames(latest, _look(screen.width, asked))
        if record is not None:
            record.refreshed(latest)

    try:
        redraw(draw, REFRESH_S, asked["rounds"])
    finally:
        for each in samplers:
            each.stop()


def _check(hosts: Sequence[str], asked: dict[str, Any]) -> None:
    wrong = [host for host in hosts if not HOST.fullmatch(host)]
    if wrong:
        raise click.UsageError(f"{wrong[0]!r} is not a host: write [USER@]NAME")
    user = asked["username"]
    if user is not None and not HOST.fullmatch(f"{user}@x"):
        raise click.UsageError(f"{user!r} is not a user name")
    if asked["transport"] == "libssh":
        raise click.UsageError("--libssh is not supported: leave it out, the program ssh is used")
    if asked["transport"] == "local":
        if list(hosts) != ["localhost"]:
            raise click.UsageError("--local works only with the host localhost")
    elif shutil.which("ssh") is None:
        raise click.UsageError("the program ssh is not installed")


def _command(host: str, asked: dict[str, Any]) -> list[str]:
    if asked["transport"] == "local":
        return ["sh", "-c", script(asked["interval"])]
    return ssh_command(host, asked["interval"], user=asked["username"], config=asked["ssh_config"])


def _look(width: int | None, asked: dict[str, Any]) -> Look:
    is_terminal = sys.stdout.isatty()
    assert asked["unit"] in MIB_IN
    return Look(
        width=width,
        unit=asked["unit"],
        colour=asked["color"] and is_terminal and not os.environ.get("NO_COLOR"),
        gpu_index=asked["gpu_index"],
        gpu_name=asked["gpu_name"],
        gpu_uuid=asked["gpu_uuid"],
        ascii=(sys.stdout.encoding or "").lower().replace("-", "") != "utf8",
    )


class CsvRecord:
    """A CSV file that samples are appended to; memory in MiB."""

    def __init__(self, path: Path, every: int) -> None:
        self._path, self._every, self._refreshes = path, every, 0
        with path.open("a", encoding="utf-8") as file:  # what cannot be written is told before the screen is taken
            if file.tell() == 0:
                file.write(",".join(HEADINGS) + "\n")

    def refreshed(self, hosts: Sequence[HostSample]) -> None:
        """Write a line for each GPU, each so many calls."""
        self._refreshes += 1
        if self._refreshes % self._every:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._path.open("a", encoding="utf-8") as file:
            for host in hosts:
                for gpu in host.gpus:
                    values = (gpu.utilization, gpu.used_mib, gpu.total_mib)
                    said = ["" if each is None else f"{each:g}" for each in values]
                    file.write(",".join([now, host.host, str(gpu.index), *said]) + "\n")


if __name__ == "__main__":
    main(prog_name="rntop")
