"""Layout of a share file: limits and use of one share, as bytes.

The same layout is in `native/share.h`. Programs of the share can write to the file, so what is read here is hostile:
any bytes give a `ShareFile` or a reason, and lengths and counts are bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

MAGIC = b"GPUFRAC\0"
VERSION = 1
DEVICES_MAX = 16
SLOTS_MAX = 256
SLOT_LOCKS_AT = 1 << 20
"""The byte that a process locks is this, plus its slot."""

_HEADER = struct.Struct("<8sIIQQIIIIII64s8x")
_DEVICE = struct.Struct("<48sQQIIQ48x")
_SLOT = struct.Struct("<IIIIQ16s24x")
_USE = struct.Struct("<8Q")
HEADER_BYTES = 4096
SLOT_BYTES = _SLOT.size + DEVICES_MAX * _USE.size
FILE_BYTES = HEADER_BYTES + SLOTS_MAX * SLOT_BYTES

_READY = 1
_LIVE = 1
_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDevice:
    """One device of a share, and what the share may have of it."""

    uuid: str
    limit_bytes: int
    fraction_milli: int = 0
    """Of the device; 0: the limit was given as memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUse:
    """What one process has of one device."""

    tracked_bytes: int
    overhead_bytes: int
    peak_bytes: int
    refusals: int

    @property
    def bytes(self) -> int:
        return self.tracked_bytes + self.overhead_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSlot:
    """One process of a share, as it says itself. Only its lock tells whether it is still there."""

    slot: int
    pid: int
    program: str
    devices: tuple[SlotUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFile:
    """What is in a share file."""

    name: str
    devices: tuple[SharedDevice, ...]
    slots: tuple[ShareSlot, ...] = ()


def encode_share(name: str, devices: Sequence[SharedDevice]) -> bytes:
    """A new share file, without processes."""
    assert 0 < len(devices) <= DEVICES_MAX
    header = _HEADER.pack(
        MAGIC, VERSION, HEADER_BYTES, FILE_BYTES, 1, _READY, len(devices), SLOTS_MAX, 0, 0, 0, name.encode()[:63]
    )
    rows = b"".join(
        _DEVICE.pack(each.uuid.encode(), each.limit_bytes, each.limit_bytes, each.fraction_milli, 0, 0)
        for each in devices
    )
    return (header + rows).ljust(FILE_BYTES, b"\0")


def decode_share(content: bytes) -> ShareFile | str:
    """What is in the file, or why it is not a share file."""
    if len(content) != FILE_BYTES or content[:8] != MAGIC:
        return "it is not a share file"
    _, version, header_bytes, file_bytes, _, _, count, slots, _, _, _, name = _HEADER.unpack_from(content)
    if (version, header_bytes, file_bytes, slots) != (VERSION, HEADER_BYTES, FILE_BYTES, SLOTS_MAX):
        return "it has another layout version"
    if not 0 < count <= DEVICES_MAX:
        return "its number of devices is wrong"
    return ShareFile(
        name=_text(name),
        devices=tuple(_device(content, row) for row in range(count)),
        slots=tuple(found for index in range(SLOTS_MAX) if (found := _slot_in_use(content, index, count)) is not None),
    )


def _device(content: bytes, row: int) -> SharedDevice:
    uuid, limit, _, fraction, _, _ = _DEVICE.unpack_from(content, _HEADER.size + row * _DEVICE.size)
    return SharedDevice(uuid=_text(uuid), limit_bytes=min(limit, _MOST), fraction_milli=min(fraction, 1000))


def _slot_in_use(content: bytes, index: int, devices: int) -> ShareSlot | None:
    at = HEADER_BYTES + index * SLOT_BYTES
    state, pid, _, _, _, program = _SLOT.unpack_from(content, at)
    if state != _LIVE:
        return None
    uses = tuple(_use(content, at + _SLOT.size + row * _USE.size) for row in range(devices))
    return ShareSlot(slot=index, pid=pid, program=_text(program), devices=uses)


def _use(content: bytes, at: int) -> SlotUse:
    tracked, overhead, _, peak, refusals, *_ = (min(each, _MOST) for each in _USE.unpack_from(content, at))
    return SlotUse(tracked_bytes=tracked, overhead_bytes=overhead, peak_bytes=peak, refusals=refusals)


def _text(field: bytes) -> str:
    """Up to its zero byte; what cannot be printed is replaced, because a terminal will show it."""
    text = field.partition(b"\0")[0].decode(errors="replace")
    return "".join(each if each.isprintable() else "?" for each in text)
