"""CPU, memory, network and disk of the whole machine between two samples, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass

from fairpool.agent.usage import Pair, Usage, rates

TICKS_S = os.sysconf("SC_CLK_TCK")
SECTOR_BYTES = 512
LOOPBACK = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    at: float
    cpu_ticks: int | None
    network: Pair | None
    disk: Pair | None


class MachineMeter:
    """Measures the machine, and remembers the last reading."""

    def __init__(self) -> None:
        self._last: _Reading | None = None

    def measure(self, at: float) -> Usage:
        """What was used since the last call, also by other programs; `at`: now by the monotonic clock."""
        now = _Reading(at=at, cpu_ticks=_cpu_ticks(), network=interface_bytes("/proc/net/dev"), disk=_disk_bytes())
        last, self._last = self._last, now
        memory = _memory_bytes()
        if last is None or now.at <= last.at:
            return Usage(memory_bytes=memory)
        elapsed_s = now.at - last.at
        received, sent = rates(last.network, now.network, elapsed_s)
        read, written = rates(last.disk, now.disk, elapsed_s)
        cores = None
        if last.cpu_ticks is not None and now.cpu_ticks is not None:
            cores = max(0, now.cpu_ticks - last.cpu_ticks) / TICKS_S / elapsed_s
        return Usage(
            cpu_cores=cores,
            memory_bytes=memory,
            received_bytes_s=received,
            sent_bytes_s=sent,
            read_bytes_s=read,
            written_bytes_s=written,
        )


def interface_bytes(path: str) -> Pair | None:
    """Bytes received and sent by the network interfaces in this table. None: there is none but the loopback.

    Bridges and tunnels repeat what passes through hardware, so where there is hardware, only that counts.
    """
    rows = {}
    for line in _lines(path):
        name, colon, counters = line.partition(":")
        words = counters.split()
        if colon and name.strip() != LOOPBACK and len(words) > 8:
            rows[name.strip()] = int(words[0]), int(words[8])
    if not rows:
        return None
    hardware = [counted for name, counted in rows.items() if os.path.exists(f"/sys/class/net/{name}/device")]
    counted = hardware or list(rows.values())
    return sum(received for received, _ in counted), sum(sent for _, sent in counted)


def _cpu_ticks() -> int | None:
    """Time in which the cores were busy."""
    words = next((line.split() for line in _lines("/proc/stat") if line.startswith("cpu ")), [])
    if len(words) < 8:
        return None
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = (int(word) for word in words[1:8])
    return user + nice + system + interrupts + soft_interrupts


def _memory_bytes() -> int | None:
    rows = dict(line.split(":", 1) for line in _lines("/proc/meminfo") if ":" in line)
    try:
        total, available = (int(rows[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    except (KeyError, ValueError, IndexError):
        return None
    return (total - available) * 1024


def _disk_bytes() -> Pair | None:
    """Bytes read from disks and written to them. Partitions and mapped devices repeat what their disk counts."""
    found = []
    for line in _lines("/proc/diskstats"):
        words = line.split()
        if len(words) > 9 and os.path.exists(f"/sys/block/{words[2]}/device"):
            found.append((int(words[5]), int(words[9])))
    if not found:
        return None
    return sum(read for read, _ in found) * SECTOR_BYTES, sum(written for _, written in found) * SECTOR_BYTES


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
