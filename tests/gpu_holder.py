"""A program that takes memory of the first CUDA device it sees and keeps it, through the driver alone: no packages.

    python tests/gpu_holder.py MIB [child] [daemon] [busy]

It says in one line what it has, and stays until it is killed. With `child` another one runs below it; with `daemon`
one that has left its session, its parent and its environment behind; with `busy` it fills its memory all the time.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time


def ask(function: str, *arguments: object) -> None:
    code = getattr(ctypes.CDLL("libcuda.so.1"), function)(*arguments)
    if code:
        raise SystemExit(f"{function}: CUDA error {code}")


def take(mib: int) -> tuple[int, ctypes.c_uint64]:
    """Take so much memory; the number of devices that can be seen, and where the memory is."""
    devices, device, context, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    ask("cuInit", 0)
    ask("cuDeviceGetCount", ctypes.byref(devices))
    ask("cuDeviceGet", ctypes.byref(device), 0)
    ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    ask("cuCtxSetCurrent", context)
    ask("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(mib << 20))
    return devices.value, memory


def fill(memory: ctypes.c_uint64, mib: int) -> None:
    """Keep the device busy."""
    while True:
        for _ in range(100):
            ask("cuMemsetD32_v2", memory, ctypes.c_uint(7), ctypes.c_size_t(mib << 18))
        ask("cuCtxSynchronize")


def start_daemon(mib: str) -> None:
    """Fork twice and leave everything behind but the place where output goes."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, __file__, mib], {})
        os._exit(0)


def main(mib: str, *more: str) -> None:
    if "child" in more:
        subprocess.Popen([sys.executable, __file__, mib])
    if "daemon" in more:
        start_daemon(mib)
    devices, memory = take(int(mib))
    print(f"holds {mib} MiB, sees {devices} device", flush=True)
    if "busy" in more:
        fill(memory, int(mib))
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
