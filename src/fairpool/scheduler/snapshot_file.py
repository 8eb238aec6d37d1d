"""The file format of snapshots: what one cycle saw, to be planned again anywhere, at any time.

The bytes are gzip around lines of JSON. The first line is a header: format, version, which Fairpool wrote it, and the
SHA-256 of all that follows. Each further line is a table (`row_codec.py`). `zcat FILE | head -1` shows what a file is.

The same snapshot gives the same bytes: no time, name or system is in them. The same bytes give the same plan on every
machine and Python: amounts are integers, floats are written with the shortest digits that give the same bits back.
Only the input of the scheduler is in a snapshot, so there is no command, environment or user content to leak.

Opening and writing files is left to the caller; what is wrong with the bytes comes back as a Problem.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from fairpool import __version__
from fairpool.model.plain import Unreadable
from fairpool.model.problem import Problem
from fairpool.scheduler.row_codec import ColumnTable, from_tables, to_tables
from fairpool.scheduler.snapshot import Snapshot

FORMAT: Final = "fairpool-snapshot"
VERSION: Final = 2
"""Raise it whenever an older Fairpool would misread a new file, and add the step from the old version below.

A new field with a default needs no new version: older files take the default, and an older Fairpool reports that it
does not know the field.
"""

Tables = dict[str, ColumnTable]
Upgrade = Callable[[Tables], Tables]


def _version_2(tables: Tables) -> Tables:
    """Tables have the present names of their classes, and mappings are objects, which were lists of pairs."""
    mappings = {"nodes": ("labels", "extended", "mig_instances"), "Policy": ("kinds", "groups_per_queue")}
    renamed = {"LabelRule": "NodeSelectorRequirement", "Neighbourhood": "PodAffinityTerm"}
    for name, columns in mappings.items():
        if name in tables:
            tables[name] = tables[name].replaced(columns, _object_of_pairs)
    return {renamed.get(name, name): table for name, table in tables.items()}


def _object_of_pairs(pairs: Any) -> Any:
    try:
        return dict(pairs)
    except (TypeError, ValueError):
        return pairs  # refused when it is read


UPGRADES: Mapping[int, Upgrade] = {1: _version_2}
"""By version: what makes its tables those of the next version."""

LARGEST_BYTES: Final = 1 << 30
"""Unpacked. 10 000 nodes with 80 000 pods take about 10 MB, so that more than this is a mistake or an attack."""
HEADER_BYTES: Final = 4096
ROWS_MAX: Final = 10_000_000
"""Of one table: rows that are all the same take no space in a file, and must not fill the memory."""

GZIP_MAGIC: Final = b"\x1f\x8b"
# Deflate, no flags, no time, no hint about speed, system unknown: nothing in it differs from machine to machine.
GZIP_START: Final = GZIP_MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\xff"
GZIP_WINDOW: Final = 31


@dataclass(frozen=True, slots=True)
class Loaded:
    """A snapshot from a file, and what is in its header."""

    snapshot: Snapshot
    version: int
    written_by: str
    notes: tuple[Problem, ...] = ()
    """What was in the file and is not known here."""


def to_bytes(snapshot: Snapshot) -> bytes:
    """The bytes of a file that holds this snapshot."""
    body = b"".join(
        _line({"table": name, "rows": table.count, "same": table.same, "columns": table.columns})
        for name, table in to_tables(snapshot).items()
    )
    header = {"format": FORMAT, "version": VERSION, "written_by": __version__, "sha256": sha256(body).hexdigest()}
    return _packed(_line(header) + body)


def from_bytes(data: bytes, upgrades: Mapping[int, Upgrade] = UPGRADES, version: int = VERSION) -> Loaded | Problem:
    """The snapshot in the bytes of a file, or why there is none."""
    try:
        header = _header(data)
        found: int = header["version"]
        if found > version:
            return _newer(header, version)
        body = _unpacked(data).partition(b"\n")[2]
        if sha256(body).hexdigest() != header.get("sha256"):
            return _damaged("its content does not match its checksum")
        tables = _tables(body)
        for step in range(found, version):
            tables = upgrades[step](tables)
        snapshot, unknown = from_tables(Snapshot, tables)
    except _Refused as refused:
        return refused.problem
    except Unreadable as error:
        what = f"the snapshot contains an invalid value: {error}"
        return Problem("snapshot_file.content", what, "save the snapshot again with Fairpool")
    written_by = str(header.get("written_by", ""))
    return Loaded(snapshot, found, written_by, tuple(_unknown(name, written_by) for name in unknown))


# ---- bytes


class _Refused(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.what)
        self.problem = problem


def _line(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _packed(text: bytes) -> bytes:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    end = struct.pack("<II", zlib.crc32(text), len(text) & 0xFFFFFFFF)
    return GZIP_START + deflate.compress(text) + deflate.flush() + end


def _unpacked(data: bytes) -> bytes:
    inflate = zlib.decompressobj(GZIP_WINDOW)
    try:
        text = inflate.decompress(data, LARGEST_BYTES)
    except zlib.error:
        raise _Refused(_damaged("it cannot be decompressed")) from None
    if not inflate.eof and len(text) >= LARGEST_BYTES:
        what = f"the file decompresses to more than {LARGEST_BYTES >> 20} MiB"
        raise _Refused(
            Problem("snapshot_file.too_large", what, "save the snapshot again; a real cluster is never that large")
        )
    if not inflate.eof:
        what = "the file ends too early: it was cut off while being written or copied"
        raise _Refused(Problem("snapshot_file.truncated", what, "copy it again, or save the snapshot again"))
    if inflate.unused_data:
        raise _Refused(_damaged("there is data after its end"))
    return text


def _header(data: bytes) -> dict[str, Any]:
    """The first line. It is looked at before the rest is unpacked, which may be large and anything at all."""
    if not data:
        fix = "save the snapshot again; the disk may have been full"
        raise _Refused(Problem("snapshot_file.empty", "the file is empty", fix))
    if not data.startswith(GZIP_MAGIC):
        raise _Refused(_foreign())
    try:
        start = zlib.decompressobj(GZIP_WINDOW).decompress(data, HEADER_BYTES)
    except zlib.error:
        raise _Refused(_damaged("it cannot be decompressed")) from None
    if b"\n" not in start and len(start) < HEADER_BYTES:
        _unpacked(data)  # says that it is cut off, if it is
    try:
        header = json.loads(start.partition(b"\n")[0])
    except (ValueError, RecursionError):
        raise _Refused(_foreign()) from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _Refused(_foreign())
    if type(header.get("version")) is not int or header["version"] < 1:
        raise _Refused(_damaged("its header has no version"))
    return header


def _tables(body: bytes) -> Tables:
    tables: Tables = {}
    for number, line in enumerate(body.splitlines(), start=2):
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            raise Unreadable(f"line {number} is not JSON") from None
        if not _is_table(content):
            raise Unreadable(f"line {number} is not a table of equally long columns")
        if content["table"] in tables:
            raise Unreadable(f"line {number} repeats the table {content['table']}")
        tables[content["table"]] = ColumnTable(content["rows"], content["columns"], content["same"])
    return tables


def _is_table(content: object) -> bool:
    match content:
        case {"table": str(), "rows": int(rows), "same": dict(same), "columns": dict(columns)}:
            are_equal = all(isinstance(column, list) and len(column) == rows for column in columns.values())
            return are_equal and 0 <= rows <= ROWS_MAX and not columns.keys() & same.keys()
    return False


# ---- problems


def _foreign() -> Problem:
    return Problem(
        "snapshot_file.foreign",
        "the file is not a Fairpool snapshot",
        "pass a file that Fairpool saved; `fairpool snapshot example FILE` writes an example",
    )


def _damaged(how: str) -> Problem:
    what = f"the file is damaged: {how}"
    return Problem("snapshot_file.damaged", what, "copy it again from its source, or save the snapshot again")


def _newer(header: Mapping[str, Any], version: int) -> Problem:
    return Problem(
        "snapshot_file.newer",
        f"the file has format version {header['version']}, written by Fairpool {header.get('written_by', '?')}; "
        f"this Fairpool {__version__} reads versions up to {version}",
        "upgrade Fairpool here, or save the snapshot with the older one",
    )


def _unknown(name: str, written_by: str) -> Problem:
    return Problem(
        "snapshot_file.unknown_field",
        f"{name}, written by Fairpool {written_by or '?'}, is not known to this Fairpool {__version__} and is ignored",
        "if the plan looks wrong, use the Fairpool version that wrote the snapshot",
    )
