"""A stand-in for `nvidia-smi` inside pods on simulated devices: shows the pod's share, and that it is simulated.

Knows the table, `-L` and `--query-gpu=… --format=csv[,noheader][,nounits]`, which scripts use. One file without
dependencies: it is put on the PATH of pods.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

VARIABLE = "FAIRPOOL_SIMULATED_GPUS"
DRIVER = "simulated"

Device = dict[str, Any]

FIELDS: dict[str, tuple[str, str, Callable[[Device], object]]] = {
    "index": ("index", "", lambda gpu: gpu["index"]),
    "name": ("name", "", lambda gpu: gpu["name"]),
    "gpu_name": ("name", "", lambda gpu: gpu["name"]),
    "uuid": ("uuid", "", lambda gpu: gpu["uuid"]),
    "gpu_uuid": ("uuid", "", lambda gpu: gpu["uuid"]),
    "count": ("count", "", lambda gpu: gpu["count"]),
    "driver_version": ("driver_version", "", lambda gpu: DRIVER),
    "memory.total": ("memory.total", "MiB", lambda gpu: gpu["memory_mib"]),
    "memory.used": ("memory.used", "MiB", lambda gpu: 0),
    "memory.free": ("memory.free", "MiB", lambda gpu: gpu["memory_mib"]),
    "utilization.gpu": ("utilization.gpu", "%", lambda gpu: 0),
    "utilization.memory": ("utilization.memory", "%", lambda gpu: 0),
}

RULE = "+-------------------------------+----------------------+----------------------+"
EDGE = "+-----------------------------------------------------------------------------+"


def main(arguments: list[str]) -> int:
    """Answer one call; the exit code."""
    gpus: list[Device] = json.loads(os.environ.get(VARIABLE, "[]"))
    for gpu in gpus:
        gpu["count"] = len(gpus)
    options = dict(word.partition("=")[::2] for word in arguments if word.startswith("--"))
    if "--query-gpu" in options:
        return _query(gpus, options)
    if "--query-compute-apps" in options:
        return 0
    if "-L" in arguments or "--list-gpus" in options:
        _say(*(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})" for gpu in gpus))
        return 0
    if arguments and arguments != ["-q"]:
        _say(f"nvidia-smi (simulated): not supported: {' '.join(arguments)}")
        return 2
    if not gpus:
        _say("No devices were found")
        return 6
    _say(*_table(gpus))
    return 0


def _query(gpus: list[Device], options: dict[str, str]) -> int:
    names = [name.strip() for name in options["--query-gpu"].split(",")]
    style = options.get("--format", "csv").split(",")
    if unknown := next((name for name in names if name not in FIELDS), None):
        _say(f'Field "{unknown}" is not a valid field to query.')
        return 2
    fields = [FIELDS[name] for name in names]
    if "noheader" not in style:
        _say(", ".join(f"{title} [{unit}]" if unit else title for title, unit, _ in fields))
    for gpu in gpus:
        _say(", ".join(_shown(value(gpu), "" if "nounits" in style else unit) for _, unit, value in fields))
    return 0


def _shown(value: object, unit: str) -> str:
    return f"{value} {unit}" if unit else str(value)


def _table(gpus: list[Device]) -> list[str]:
    rows = [
        time.strftime("%a %b %e %H:%M:%S %Y"),
        EDGE,
        _boxed("NVIDIA-SMI simulated    Driver Version: simulated    CUDA Version: none"),
        _boxed("These GPUs are simulated by Fairpool; nothing runs on them."),
        RULE,
        "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |",
        RULE.replace("-", "="),
    ]
    for gpu in gpus:
        name = f"{gpu['index']:>4}  {_cut(gpu['name'], 18):<18}  On"
        bus = f"00000000:{gpu['index']:02X}:00.0 Off"
        memory = f"0MiB / {gpu['memory_mib']}MiB"
        rows += [
            f"|{name:<31}| {bus} |{0:>21} |",
            f"| N/A   N/A    P0    N/A /  N/A |{memory:>21} |{'0%':>8}      Default |",
            RULE,
        ]
    return [
        *rows,
        "",
        EDGE,
        _boxed("Processes:"),
        _boxed(" No running processes found"),
        EDGE,
    ]


def _boxed(text: str) -> str:
    return f"| {text:<75} |"


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 3]}..."


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
