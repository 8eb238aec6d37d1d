"""Shares of a real GPU: does the limit hold, what does a program see, and what does a call cost.

Needs one NVIDIA GPU, a C compiler and PyTorch; CuPy, JAX and Triton are tried where they are installed. It runs in
parts, each of a few minutes at most, and keeps one JSON file to which each part adds its results:

    python -m bench.gpu_fractions --json bench/results/gpu-fractions.json            # all parts
    python -m bench.gpu_fractions --json bench/results/gpu-fractions.json kinds cost  # some
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from fairpool.agent.fractions.share_file import SharedDevice, encode_share
from tools import native_build

MIB = 1 << 20
KINDS = ("linear", "pitched", "async", "pool", "virtual", "array", "mipmap", "graph")
FRACTION_MILLI = 300
LIBRARY = native_build.ROOT / native_build.LIBRARY
ALLOCATORS = {
    "default": "",
    "expandable segments": "expandable_segments:True",
    "cudaMallocAsync": "backend:cudaMallocAsync",
}


class Bench:
    """One GPU, and a folder for share files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name, self.uuid, total, self.driver = self.asked("name,uuid,memory.total,driver_version", kind="gpu")[0]
        self.total_mib = int(total)
        self.limit_mib = self.total_mib * FRACTION_MILLI // 1000
        self.calls = folder / "calls"
        source = Path(__file__).with_name("_gpu_calls.c")
        compiler = native_build.compiler()
        assert compiler is not None, "there is no C compiler"
        native = native_build.ROOT / "native"
        subprocess.run([compiler, "-O2", f"-I{native}", source, "-o", self.calls, "-ldl"], check=True, timeout=60)

    def asked(self, fields: str, *, kind: str) -> list[list[str]]:
        """What nvidia-smi says without the library: the truth."""
        command = ["nvidia-smi", f"--query-{kind}={fields}", "--format=csv,noheader,nounits"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()
        return [[word.strip() for word in line.split(",")] for line in lines]

    def real_mib(self, pid: int) -> int:
        return sum(int(used) for each, used in self.asked("pid,used_memory", kind="compute-apps") if int(each) == pid)

    def share(self, milli: int = FRACTION_MILLI) -> Path:
        path = self.folder / f"share-{random.randrange(1 << 30)}"
        limit = self.total_mib * milli // 1000 * MIB
        path.write_bytes(encode_share("bench", [SharedDevice(uuid=self.uuid, limit_bytes=limit, fraction_milli=milli)]))
        return path

    def limited(self, share: Path | None, **more: str) -> dict[str, str]:
        ours = {"LD_PRELOAD": str(LIBRARY), "GPUFRAC_SHARE": str(share), "GPUFRAC_LOG": "2"} if share else {}
        return {**os.environ, **ours, **more}

    def start(self, command: Sequence[str | Path], share: Path | None, **more: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [str(each) for each in command],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self.limited(share, **more),
            text=True,
        )

    def torch(self, text: str, share: Path | None, **more: str) -> subprocess.Popen[str]:
        return self.start([sys.executable, "-c", text], share, **more)

    def first_line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(process.communicate(timeout=60)[1][-2000:])
        return line.strip()


def kinds(bench: Bench) -> dict[str, Any]:
    """60 GiB are asked for by each of eight calls, one GiB at a time."""
    found = {}
    for kind in KINDS:
        process = bench.start([bench.calls, "fill", kind], bench.share())
        gib, rc, free, total = map(int, bench.first_line(process).split())
        real = bench.real_mib(process.pid)
        process.communicate("\n", timeout=60)
        is_held = rc == 2 and real <= bench.limit_mib
        found[kind] = {"gib": gib, "rc": rc, "free_mib": free, "total_mib": total, "real_mib": real, "held": is_held}
    return {"limit_mib": bench.limit_mib, "stopped": sum(each["held"] for each in found.values()), "kinds": found}


TORCH = """
import torch
free, total = torch.cuda.mem_get_info(); torch.zeros(1, device="cuda"); torch.cuda.synchronize()
kept = []; words = "no error"
try:
    for _ in range(1000): kept.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
except Exception as error: words = type(error).__name__
print(len(kept) * 256, total >> 20, torch.cuda.get_device_properties(0).total_memory >> 20, words, flush=True)
input()
kept = kept[: len(kept) // 2]; torch.cuda.synchronize(); torch.cuda.empty_cache()
again = torch.empty(1 << 30, dtype=torch.uint8, device="cuda"); print("again", flush=True)
"""


def frameworks(bench: Bench) -> dict[str, Any]:
    """How far PyTorch's three allocators, CuPy, JAX and Triton get."""
    found: dict[str, Any] = {}
    for name, setting in ALLOCATORS.items():
        process = bench.torch(TORCH, bench.share(), PYTORCH_CUDA_ALLOC_CONF=setting, PYTORCH_ALLOC_CONF=setting)
        tensors, total, properties, words = bench.first_line(process).split(maxsplit=3)
        real = bench.real_mib(process.pid)
        output, errors = process.communicate("\n", timeout=120)
        found[f"PyTorch, {name}"] = {
            "tensors_mib": int(tensors),
            "mem_get_info_mib": int(total),
            "properties_mib": int(properties),
            "error": words,
            "real_mib": real,
            "again": "again" in output,
            "library": [line.split("]: ")[-1] for line in errors.splitlines() if "gpufrac" in line][:3],
        }
    for name, text in OTHERS.items():
        process = bench.torch(text, bench.share())
        try:
            output, errors = process.communicate(timeout=150)
            found[name] = output.strip() or errors.strip()[-300:]
        except subprocess.TimeoutExpired:
            process.kill()
            found[name] = "not ready within 150 s"
    return found


OTHERS = {
    "CuPy": """
import cupy
kept = []
try:
    while len(kept) < 100: kept.append(cupy.empty(1 << 30, dtype=cupy.uint8))
except cupy.cuda.memory.OutOfMemoryError: print("out of memory after", len(kept), "GiB")
""",
    "JAX": """
import jax, jax.numpy as jnp
(jnp.ones((1024, 1024)) @ jnp.ones((1024, 1024))).block_until_ready()
print("limit of its pool in MiB:", jax.devices()[0].memory_stats()["bytes_limit"] >> 20)
""",
    "PyTorch graph": """
import torch
x = torch.zeros(1024, device="cuda"); g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    for _ in range(20): x.add_(1)
g.replay(); torch.cuda.synchronize(); print("replayed", x[0].item())
""",
}


HOLD = """
import torch
x = torch.empty({mib} << 20, dtype=torch.uint8, device="cuda"); print("held", flush=True); input()
"""


def shared(bench: Bench) -> dict[str, Any]:
    """Two processes in one share; the one that holds most of it is killed; tensors that two processes share."""
    share = bench.share()
    most, rest = bench.limit_mib * 6 // 10, bench.limit_mib // 2
    hold = HOLD.format(mib=most)
    attempt = f"""
import time, torch
torch.zeros(1, device="cuda")
def attempt():
    try: return torch.empty({rest} << 20, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError: return None
print("refused" if attempt() is None else "given", flush=True); input(); began = time.perf_counter()
while (x := attempt()) is None and time.perf_counter() - began < 20: time.sleep(0.001)
print(round((time.perf_counter() - began) * 1000, 1) if x is not None else "never", flush=True); input()
"""
    holder = bench.torch(hold, share)
    bench.first_line(holder)
    other = bench.torch(attempt, share)
    before = bench.first_line(other)
    together = bench.real_mib(holder.pid) + bench.real_mib(other.pid)
    holder.send_signal(signal.SIGKILL)
    assert other.stdin is not None
    other.stdin.write("\n")
    other.stdin.flush()
    after = bench.first_line(other)
    real = bench.real_mib(other.pid)
    other.communicate("\n", timeout=60)
    return {
        "held_mib": most,
        "asked_mib": rest,
        "before_the_kill": before,
        "real_together_mib": together,
        "memory_back_after_ms": after,
        "real_after_mib": real,
        "tensor_of_another_process": _imported(bench),
    }


def _imported(bench: Bench) -> dict[str, Any]:
    """What a process that opens 4 GiB of another one is charged: nothing, or the share would pay twice."""
    text = """
import torch, torch.multiprocessing as mp
def child(queue, back):
    x = queue.get(); torch.cuda.synchronize(); free, total = torch.cuda.mem_get_info()
    back.put((__import__("os").getpid(), free >> 20, float(x[0]))); queue.get()
if __name__ == "__main__":
    mp.set_start_method("spawn"); queue, back = mp.Queue(), mp.Queue()
    p = mp.Process(target=child, args=(queue, back)); p.start()
    x = torch.ones(1 << 32, dtype=torch.uint8, device="cuda"); queue.put(x)
    print(*back.get(timeout=90), flush=True); input(); queue.put(0); p.join()
"""
    script = bench.folder / "imported.py"
    script.write_text(text)
    process = bench.start([sys.executable, script], bench.share())
    pid, free, value = bench.first_line(process).split()
    found = {
        "owner_real_mib": bench.real_mib(process.pid),
        "importer_real_mib": bench.real_mib(int(pid)),
        "share_free_mib": int(free),
        "value": float(value),
    }
    process.communicate("\n", timeout=60)
    return found


def view(bench: Bench) -> dict[str, Any]:
    """What nvidia-smi shows in the share while a program of it holds memory."""
    share = bench.share()
    holder = bench.torch(HOLD.format(mib=4096), share)

    bench.first_line(holder)
    environment = bench.limited(share) | {"GPUFRAC_LOG": "1"}

    def shown(*flags: str) -> str:
        return subprocess.run(
            ["nvidia-smi", *flags], env=environment, capture_output=True, text=True, timeout=60
        ).stdout

    table = [line for line in shown().splitlines() if "MiB" in line]
    found = {
        "table": table,
        "query": shown("--query-gpu=memory.used,memory.total,memory.free", "--format=csv,noheader").strip(),
        "processes": shown("--query-compute-apps=pid,used_memory", "--format=csv,noheader").strip(),
        "q": [line.strip() for line in shown("-q", "-d", "MEMORY").splitlines() if "MiB" in line][:4],
        "holder": holder.pid,
        "real_mib": bench.real_mib(holder.pid),
    }
    holder.communicate("\n", timeout=60)
    return found


def cost(bench: Bench, blocks: int = 2000) -> dict[str, Any]:
    """Added time of a call: blocks with and without the library alternate in one process; 95 % by bootstrap."""
    found: dict[str, Any] = {}
    for milli in (1000, 500):
        found[f"fraction {milli / 1000}"] = _compared(bench, bench.share(milli), blocks)
    found["without the library"] = _compared(bench, None, blocks // 4)
    return found


def _compared(bench: Bench, share: Path | None, blocks: int) -> dict[str, Any]:
    process = bench.start([bench.calls, "compare", str(blocks)], share)
    output, errors = process.communicate(timeout=400)
    if process.returncode != 0:
        raise RuntimeError(errors)
    rows: dict[str, list[tuple[float, float]]] = {}
    for line in output.splitlines():
        name, real, ours = line.split()
        rows.setdefault(name, []).append((float(real), float(ours)))
    return {name: _added(pairs) for name, pairs in rows.items()}


def _added(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    added = [ours - real for real, ours in pairs]
    dice = random.Random(1)
    medians = sorted(median(dice.choices(added, k=len(added))) for _ in range(1000))
    return {
        "blocks": len(added),
        "real_ns": round(median(real for real, _ in pairs), 1),
        "added_ns": round(median(added), 1),
        "low_ns": round(medians[25], 1),
        "high_ns": round(medians[974], 1),
    }


def start(bench: Bench, rounds: int = 9) -> dict[str, Any]:
    """Milliseconds of cuInit, the first context and the first allocation, with and without the library in turn."""
    times: dict[str, list[list[float]]] = {"plain": [], "limited": []}
    for _ in range(rounds):
        for name, share in (("plain", None), ("limited", bench.share())):
            process = bench.start([bench.calls, "start"], share)
            times[name].append([float(word) for word in process.communicate(timeout=60)[0].split()])
    return {
        name: dict(
            zip(
                ("init_ms", "context_ms", "first_ms"),
                (round(median(each), 2) for each in zip(*rows, strict=True)),
                strict=True,
            )
        )
        for name, rows in times.items()
    }


PARTS: Mapping[str, Callable[[Bench], dict[str, Any]]] = {
    "kinds": kinds,
    "view": view,
    "frameworks": frameworks,
    "shared": shared,
    "start": start,
    "cost": cost,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--json", type=Path, required=True, help="results, to which these are added")
    arguments = parser.parse_args()
    assert native_build.build(), "the library could not be built"
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        kept: dict[str, Any] = {}
        with suppress(FileNotFoundError):
            kept = json.loads(arguments.json.read_text())
        kept["machine"] = {"gpu": bench.name, "total_mib": bench.total_mib, "driver": bench.driver}
        for name in arguments.parts or PARTS:
            try:
                found = PARTS[name](bench)
            except Exception as error:  # one part that fails must not lose the others
                found = {"failed": str(error)[-2000:]}
            kept[name] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **found}
            arguments.json.write_text(json.dumps(kept, indent=1) + "\n")
            print(name, json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
