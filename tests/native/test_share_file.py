"""Share files as Python writes and reads them, and which programs can be limited."""

from __future__ import annotations

import os
import re
import stat
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpool.agent.fractions.hold import hold_environment, overcommitted, shared_devices
from fairpool.agent.fractions.preloadable import refusal, why_unlimited
from fairpool.agent.fractions.share_file import (
    FILE_BYTES,
    SLOT_BYTES,
    SharedDevice,
    ShareFile,
    decode_share,
    encode_share,
)
from fairpool.agent.nvml import Gpu
from fairpool.model.workload import gpu_memory, gpu_portion
from tools.native_build import ROOT

MIB = 1 << 20
DEVICES = [SharedDevice(uuid=f"GPU-{number}", limit_bytes=number * MIB, fraction_milli=number) for number in (1, 2, 16)]


def test_what_is_written_is_read() -> None:
    assert decode_share(encode_share("train", DEVICES)) == ShareFile(name="train", devices=tuple(DEVICES))


def test_the_layout_is_that_of_the_library() -> None:
    header = (ROOT / "native" / "share.h").read_text()
    values = {name: int(value) for name, value in re.findall(r"(\w+_MAX|UUID_BYTES) = (\d+)", header)}
    assert values == {"DEVICES_MAX": 16, "SLOTS_MAX": 256, "UUID_BYTES": 48}
    assert (FILE_BYTES, SLOT_BYTES) == (4096 + 256 * (64 + 16 * 64), 64 + 16 * 64)


@given(st.binary(max_size=300), st.integers(0, FILE_BYTES), st.booleans())
def test_random_bytes_never_crash_the_reader(noise: bytes, at: int, is_whole: bool) -> None:
    content = bytearray(encode_share("x", DEVICES))
    content[at : at + len(noise)] = noise
    found = decode_share(bytes(content[:FILE_BYTES] if is_whole else content[:at]))
    if isinstance(found, ShareFile):
        assert found.name.isprintable()
        assert all(each.program.isprintable() and len(each.devices) == len(found.devices) for each in found.slots)


def test_a_share_is_as_large_as_the_request_says() -> None:
    a10, h200 = (
        Gpu(index=0, uuid="a", name="A10", memory_mib=23_028),
        Gpu(index=1, uuid="b", name="H200", memory_mib=143_771),
    )
    assert [each.limit_bytes // MIB for each in shared_devices(gpu_portion(300), [a10, h200])] == [6908, 43_131]
    assert [each.limit_bytes // MIB for each in shared_devices(gpu_memory(30_000), [a10, h200])] == [23_028, 30_000]


def test_all_shares_of_a_device_together_are_at_most_the_device() -> None:
    def share(milli: int) -> SharedDevice:
        return SharedDevice(uuid="a", limit_bytes=1001 * milli // 1000 * MIB)

    total = {"a": 1001 * MIB}
    assert overcommitted([share(300)], [share(700)], total) == []
    assert overcommitted([share(300)], [share(300), share(300), share(103)], total) != []
    assert overcommitted([share(300)], [SharedDevice(uuid="b", limit_bytes=1 << 50)], total) == []


def test_the_library_is_added_once_to_what_is_preloaded() -> None:
    once = hold_environment({"LD_PRELOAD": "x.so y.so"}, Path("/lib.so"), Path("/s"), DEVICES[:2])
    assert once["LD_PRELOAD"] == "x.so:y.so:/lib.so"
    assert once["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert hold_environment(once, Path("/lib.so"), Path("/s"), DEVICES[:2])["LD_PRELOAD"] == once["LD_PRELOAD"]


def _program(loader: bytes | None) -> bytes:
    segment = struct.pack("<IIQQQQQQ", 3 if loader is not None else 1, 4, 120, 0, 0, len(loader or b""), 0, 1)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return header + segment + (loader or b"")


@pytest.mark.parametrize(
    ("head", "mode", "why"),
    [
        pytest.param(_program(b"/lib64/ld-linux-x86-64.so.2\0"), 0o755, "", id="glibc"),
        pytest.param(_program(b"/lib/ld-musl-x86_64.so.1\0"), 0o755, "it uses musl and not glibc", id="musl"),
        pytest.param(_program(None), 0o755, "it is statically linked", id="static"),
        pytest.param(b"#!/bin/sh\n", 0o755, "", id="script"),
        pytest.param(
            b"#!/bin/sh\n", 0o755 | stat.S_ISUID, "it is set-uid, and the loader drops LD_PRELOAD", id="setuid"
        ),
        pytest.param(b"\x7fELF\x01\x01", 0o755, "it is not a 64-bit program", id="32 bit"),
        pytest.param(b"\x7fELF\x02\x01", 0o755, "its header is cut off", id="cut off"),
    ],
)
def test_programs_that_cannot_be_limited_are_recognized(head: bytes, mode: int, why: str) -> None:
    assert why_unlimited(head, mode) == why


def test_a_program_with_capabilities_of_its_own_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(_program(b"/lib64/ld-linux-x86-64.so.2\0"))
    program.chmod(0o755)
    assert refusal(str(program)) is None
    try:  # cap_net_raw, permitted and effective
        os.setxattr(program, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
    except OSError:
        pytest.skip("needs root, and a file system with capabilities")
    found = refusal(str(program))
    assert found is not None
    assert "capabilities" in found.what


@given(st.binary(max_size=400))
def test_no_file_crashes_that_check(noise: bytes) -> None:
    why_unlimited(b"\x7fELF\x02\x01" + noise, 0o755)
