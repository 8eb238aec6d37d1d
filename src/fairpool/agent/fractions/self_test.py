"""Self-test: whether a program in a share of a GPU sees the share. Nothing is allocated on the GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fairpool.agent.fractions.hold import MIB, hold_environment, shared_devices
from fairpool.agent.fractions.share_file import encode_share
from fairpool.agent.nvml import Gpu
from fairpool.model.problem import Problem
from fairpool.model.workload import gpu_portion

HALF_MILLI = 500
PROGRAM_S = 60.0
PROGRAM = """
import ctypes
cuda, total = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t()
print(cuda.cuInit(0), cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0), total.value)
"""


def wrong_view(library: Path, gpu: Gpu) -> Problem | None:
    """What a program sees of half of a device, if it is not half."""
    devices = shared_devices(gpu_portion(HALF_MILLI), [gpu])
    with tempfile.TemporaryDirectory() as folder:
        share = Path(folder, "check.share")
        share.write_bytes(encode_share("check", devices))
        try:
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM],
                env=hold_environment(os.environ, library, share, devices),
                capture_output=True,
                text=True,
                timeout=PROGRAM_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Problem("gpu.check", f"GPU {gpu.index}: the test program failed: {error}", "see `nvidia-smi`")
    if done.stdout.split() == ["0", "0", str(devices[0].limit_bytes)]:
        return None
    seen = (done.stdout + done.stderr).strip()[-300:]
    what = f"GPU {gpu.index}: a program in a share of {devices[0].limit_bytes // MIB} MiB reports: {seen}"
    return Problem("gpu.check", what, "report it with the version of the driver")
