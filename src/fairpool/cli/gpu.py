"""`fairpool gpu`: run a program in a share of a GPU, without a server or any other part of the platform."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairpool.cli.failure import ERROR, UNUSABLE, Failure, fail, not_yet
from fairpool.cli.lazy_group import HELP
from fairpool.cli.screen import Screen
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import GpuRequest, gpu_memory, gpu_portion

if TYPE_CHECKING:
    from fairpool.agent.fractions.share_directory import FoundShare
    from fairpool.agent.fractions.share_file import SharedDevice
    from fairpool.agent.nvml import Gpu

MIB = 1 << 20
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
DIRECTORY = click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of the share files (default: FAIRPOOL_GPU_SHARES, /run/fairpool-gpu, or one of your own).",
)


@click.group(context_settings=HELP)
def gpu() -> None:
    """Run programs in a share of a GPU, and show what they use. No server is needed.

    A program in a share sees as much GPU memory as the share has, in nvidia-smi too, and gets an out-of-memory error
    beyond it. All its child processes are in the same share. This keeps honest programs within their share; it does not
    stop a hostile one.

    Example: fairpool gpu run --fraction 0.3 -- python train.py
    """


@gpu.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: fairpool gpu run --fraction 0.3 -- python train.py",
)
@click.option("--fraction", metavar="NUMBER", help="Part of a GPU's memory, such as 0.3: above 0, at most 1.")
@click.option("--memory", type=click.IntRange(1), metavar="MIB", help="Memory in MiB, instead of --fraction.")
@click.option("--device", "devices", multiple=True, metavar="DEVICE", help="Index or UUID; repeat it for several GPUs.")
@click.option(
    "--mode",
    type=click.Choice(["off", "strict", "fair"]),
    default="off",
    show_default=True,
    help="How compute time is shared; so far only `off`: the driver shares it evenly among processes.",
)
@DIRECTORY
@click.argument("command", nargs=-1, required=True)
def run(
    fraction: str | None,
    memory: int | None,
    devices: tuple[str, ...],
    mode: str,
    directory: Path | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND in a share of a GPU, and end with its exit code.

    Where no --device is given, it is the GPU with the least room that is enough. A share is refused if all shares of a
    GPU together would have more memory than it. The share ends with the last of its processes.
    """
    from fairpool.agent.fractions.library import find_library
    from fairpool.agent.fractions.preloadable import refusal
    from fairpool.agent.fractions.share_directory import DirectoryRefused, default_directory, new_share

    request = _request(fraction, memory)
    if mode != "off":
        fail([not_yet(f"--mode {mode}", "leave it out: compute time is then shared evenly")], UNUSABLE)
    if "GPUFRAC_SHARE" in os.environ:
        fail([Problem("gpu.nested", "this program is already in a share", "run the command as it is")], UNUSABLE)
    library, refused = find_library(), refusal(command[0])
    problems = [each for each in (library, refused) if isinstance(each, Problem)]
    if problems or not isinstance(library, Path):
        fail(problems, UNUSABLE)
    folder = (directory or default_directory()).absolute()  # the program may change to another folder
    chosen = _chosen(devices, request, folder)

    def check(others: Sequence[SharedDevice]) -> None:
        from fairpool.agent.fractions.hold import overcommitted

        found = overcommitted(wanted, others, {each.uuid: each.memory_mib * MIB for each in chosen})
        if found:
            raise Failure(found, exit_code=UNUSABLE)

    from fairpool.agent.fractions.hold import hold_environment, shared_devices

    wanted = shared_devices(request, chosen)
    try:
        with new_share(folder, Path(command[0]).name, wanted, check) as share:
            code = _run(command, hold_environment(os.environ, library, share, wanted))
    except DirectoryRefused as error:
        fail([error.problem], UNUSABLE)
    sys.exit(code)


@gpu.command(epilog="Example: fairpool gpu ps")
@DIRECTORY
def ps(directory: Path | None) -> None:
    """Show the shares of this machine and their processes.

    For each process: the memory it uses, its limit, its peak, and how many allocations were refused.
    """
    screen = Screen.here(every_row=True)
    _draw(screen, directory)
    screen.show()


@gpu.command(epilog="Example: fairpool gpu top --interval 5")
@DIRECTORY
@click.option("--interval", type=click.FloatRange(0.1, 3600), default=2.0, show_default=True, metavar="SECONDS")
@click.option("--count", type=click.IntRange(1), metavar="NUMBER", help="Stop after so many times.")
def top(directory: Path | None, interval: float, count: int | None) -> None:
    """Show what `gpu ps` shows, again and again, until Ctrl-C."""
    shown = 0
    while True:
        screen = Screen.here(every_row=True)
        _draw(screen, directory)
        if sys.stdout.isatty():
            click.clear()
        screen.show()
        shown += 1
        if count is not None and shown >= count:
            return
        time.sleep(interval)


@gpu.command(epilog="Example: fairpool gpu check")
def check() -> None:
    """Check that shares of GPUs work on this machine.

    It checks the library, the driver, and that a program in a share sees its part of each GPU. Nothing is allocated on
    a GPU. In a share, it shows the share that this process is in.
    """
    from fairpool.agent.fractions.library import find_library
    from fairpool.agent.fractions.self_test import wrong_view
    from fairpool.agent.nvml import find_gpus

    library, gpus = find_library(), find_gpus()
    if isinstance(library, Problem):
        fail([library], ERROR)
    found = [each for each in gpus.devices() if not each.error]
    if not found:
        fail([Problem("gpu.none", gpus.error or "there is no NVIDIA GPU", "run it on a machine with one")], ERROR)
    inside = os.environ.get("GPUFRAC_SHARE")
    if inside:
        own = {each.strip() for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")}
        for each in [each for each in found if each.uuid in own] or found:
            click.echo(f"This process is in the share {inside}: {each.memory_mib} MiB of {each.name}.")
        return
    problems = [each for each in (wrong_view(library, device) for device in found) if each is not None]
    if problems:
        fail(problems, ERROR)
    for each in found:
        click.echo(f"GPU {each.index}: {each.name}, {each.memory_mib} MiB, {each.uuid}: shares work.")


def _request(fraction: str | None, memory: int | None) -> GpuRequest:
    if (fraction is None) == (memory is None):
        raise click.UsageError("Give either --fraction or --memory.")
    if memory is not None:
        return gpu_memory(memory)
    try:
        milli = Decimal(fraction or "") * WHOLE_GPU_MILLI
        is_valid = milli.is_finite() and milli == int(milli) and 0 < milli <= WHOLE_GPU_MILLI
    except InvalidOperation:
        is_valid = False
        milli = Decimal(0)
    if not is_valid:
        what = f"{fraction} is not a valid fraction of a GPU"
        fail([Problem("gpu.fraction", what, "give a number above 0 and at most 1, with up to 3 decimals")], UNUSABLE)
    return gpu_portion(int(milli))


def _chosen(names: Sequence[str], request: GpuRequest, directory: Path) -> list[Gpu]:
    """The GPUs that were named; or the one with the least room that is enough."""
    from fairpool.agent.fractions.share_directory import shares
    from fairpool.agent.nvml import find_gpus

    gpus = find_gpus()
    there = list(gpus.devices())
    if not there:
        fail([Problem("gpu.none", gpus.error or "there is no NVIDIA GPU", "run it on a machine with one")], UNUSABLE)
    if names:
        found = [each for name in names for each in there if name in (str(each.index), each.uuid)]
        if len(found) != len(names) or len({each.uuid for each in found}) != len(names):
            known = ", ".join(f"{each.index} ({each.uuid})" for each in there)
            fail(
                [Problem("gpu.no_device", f"--device {' '.join(names)}: not found, or twice", f"GPUs: {known}")],
                UNUSABLE,
            )
    else:
        taken: dict[str, int] = {}
        for share in (each for each in shares(directory) if each.is_held):
            for device in share.content.devices:
                taken[device.uuid] = taken.get(device.uuid, 0) + device.limit_bytes // MIB
        usable = [each for each in there if not each.error]
        left = {each.uuid: each.memory_mib - taken.get(each.uuid, 0) for each in usable}
        fitting = [each for each in usable if request.own_memory_mib(each.memory_mib) <= left[each.uuid]]
        # None has room: the first one's refusal then says how much is left.
        found = sorted(fitting, key=lambda each: left[each.uuid])[:1] or usable[:1]
    broken = [each for each in found or there if each.error]
    if broken or not found:
        fail(
            [Problem("gpu.unusable", f"GPU {each.index}: {each.error}", "name another one") for each in broken],
            UNUSABLE,
        )
    return found


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Its exit code as a shell gives it. Signals are passed on; an interrupt reaches it by itself."""
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: Any) -> None:
        if not started:
            early.append(number)
        for process in started:
            with suppress(ProcessLookupError):
                process.send_signal(number)

    # What is ignored stays so, for the program too: by `nohup`, or in the background.
    heard = [each for each in (*PASSED_ON, signal.SIGINT) if signal.getsignal(each) is not signal.SIG_IGN]
    for number in heard:
        # An interrupt is not ignored here: a program would inherit that.
        signal.signal(number, pass_on if number in PASSED_ON else lambda *_: None)
    started.append(subprocess.Popen(command, env=environment))
    for missed in early:
        pass_on(missed, None)
    code = started[0].wait()
    return code if code >= 0 else 128 - code


def _draw(screen: Screen, directory: Path | None) -> None:
    from fairpool.agent.fractions.share_directory import default_directory, shares

    found = [each for each in shares(directory or default_directory()) if each.is_held]
    rows = [row for share in found for row in _rows(share)]
    if not rows:
        screen.text("There are no shares of a GPU on this machine.")
        return
    screen.table(("SHARE", "GPU", "FRACTION", "PID", "PROGRAM", "USED", "LIMIT", "PEAK", "REFUSED"), rows)


def _rows(share: FoundShare) -> list[tuple[str, ...]]:
    """One for each process and device; one for a share without processes."""
    rows: list[tuple[str, ...]] = []
    for number, device in enumerate(share.content.devices):
        fraction = f"{device.fraction_milli / WHOLE_GPU_MILLI:g}" if device.fraction_milli else "-"
        first = (share.content.name, device.uuid, fraction)
        limit = f"{device.limit_bytes // MIB} MiB"
        for slot in share.content.slots:
            use = slot.devices[number]
            figures = (f"{use.bytes // MIB} MiB", limit, f"{use.peak_bytes // MIB} MiB", str(use.refusals))
            rows.append((*first, str(slot.pid), slot.program, *figures))
        if not share.content.slots:
            rows.append((*first, "-", "-", "0 MiB", limit, "-", "-"))
    return rows
