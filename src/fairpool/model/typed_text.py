"""Parsing of typed text by type: amounts, enum values, numbers, yes and no."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from fairpool.model.problem import Problem
from fairpool.model.quantity import UNLIMITED
from fairpool.model.spelling import did_you_mean

YES_AND_NO = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
BYTES = {"": 1} | {letter: 1000**n for n, letter in enumerate("KMGT", start=1)}
BYTES |= {f"{letter}i": 1024**n for n, letter in enumerate("KMGT", start=1)}
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
AMOUNT_MAX = 2**53


def reader_for(hint: Any) -> Callable[[str], Any] | None:
    """What reads a text as a value of this type; None if people cannot write one in a word."""
    if hasattr(hint, "__supertype__"):
        return reader_for(hint.__supertype__)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and NoneType in parts and len(parts) == 2:
        inner = reader_for(parts[0] if parts[1] is NoneType else parts[1])
        return None if inner is None else lambda text: None if text.lower() == "none" else inner(text)
    if origin in (tuple, frozenset) and isinstance(parts[0], type) and issubclass(parts[0], StrEnum):
        return lambda text: _words(text, parts[0], origin)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return lambda text: word(text, hint)
    return PLAIN.get(hint)


def plain(text: str) -> str:
    return text


def yes_or_no(text: str) -> bool | Problem:
    said = YES_AND_NO.get(text.lower())
    return said if said is not None else _not(text, "yes or no", "write true or false")


def whole_number(text: str) -> int | Problem:
    if not re.fullmatch(r"-?\d{1,16}", text):
        return _not(text, "a whole number", "write 3, for example")
    return int(text)


def number(text: str) -> float | Problem:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    return value if math.isfinite(value) and value >= 0 else _not(text, "a number of 0 or more", "write 1 or 0.5")


def word(text: str, enum: type[StrEnum]) -> Any:
    """A member of an enum, or a Problem."""
    words: list[str] = [member.value for member in enum]
    if text in words:
        return enum(text)
    return _not(text, f"one of: {', '.join(words)}", did_you_mean(text, words, "choose one of them"))


def _words(text: str, enum: type[StrEnum], container: Callable[[Iterable[Any]], Any]) -> Any:
    members = [word(each.strip(), enum) for each in text.split(",") if each.strip()]
    return next((each for each in members if isinstance(each, Problem)), None) or container(members)


def thousandths(text: str) -> int | Problem:
    """GPUs or CPUs as thousandths: `6`, `2.5`."""
    try:
        milli = Decimal(text) * 1000
    except InvalidOperation:
        milli = Decimal("nan")
    if not milli.is_finite() or not 0 <= milli <= AMOUNT_MAX or milli != milli.to_integral_value():
        return _not(text, "an amount", "write 6 or 2.5, 0 or more with at most three decimals")
    return int(milli)


def bytes_amount(text: str) -> int | Problem:
    """`16G`, `512Mi`, `0`."""
    match = re.fullmatch(r"(\d{1,16}(?:\.\d{1,3})?)([KMGT]i?)?(B?)", text)
    if match is None:
        return _not(text, "an amount of memory", "write 16G or 512Mi")
    amount, unit, has_unit = Decimal(match[1]), match[2] or "", bool(match[2] or match[3])
    if amount and not has_unit:
        fix = f"write {text}G or 512Mi"
        return Problem("value.no_unit", f"{text!r} has no unit", fix)
    if amount * BYTES[unit] > AMOUNT_MAX:
        return _not(text, "a realistic amount of memory", "write 16G or 512Mi")
    return int(amount * BYTES[unit])


def or_unlimited(read: Callable[[str], int | Problem]) -> Callable[[str], int | Problem]:
    """The same amounts, and the word `unlimited`."""

    def reads(text: str) -> int | Problem:
        if text.lower() == "unlimited":
            return UNLIMITED
        amount = read(text)
        if not isinstance(amount, Problem):
            return amount
        fix = "write unlimited" if text == "-1" else f"{amount.fix}, or unlimited"
        return Problem(amount.code, amount.what, fix)

    return reads


def at_most(most: int) -> Callable[[str], int | Problem]:
    """Whole numbers from 0 to this one."""

    def reads(text: str) -> int | Problem:
        number = whole_number(text)
        if isinstance(number, int) and not 0 <= number <= most:
            return Problem("value.out_of_range", f"{text} is out of range", f"write a number from 0 to {most}")
        return number

    return reads


def duration_s(text: str) -> int | Problem:
    """`90`, `90s`, `10m`, `2h`, `1d`, `1h30m`."""
    if re.fullmatch(r"\+?\d{1,9}|\+?(\d{1,9}[smhd])+", text) is None:
        return _not(text, "a length of time", "write 90s, 10m, 2h, 1h30m or 1d")
    return sum(int(amount) * SECONDS[unit] for amount, unit in re.findall(r"(\d+)([smhd]?)", text))


def _not(text: str, expected: str, fix: str) -> Problem:
    return Problem("value.not_understood", f"{text!r} is not {expected}", fix)


PLAIN: dict[Any, Callable[[str], Any]] = {bool: yes_or_no, int: whole_number, float: number, str: plain}
