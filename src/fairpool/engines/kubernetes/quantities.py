"""Quantities of Kubernetes as integers: `500m`, `1Gi`, `2e3`. Pure."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache

_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]*)([eE][+-]?[0-9]{1,3}|[numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
MILLI = 1000
LARGEST = 2**63 - 1
LONGEST = 64


@lru_cache(maxsize=4096)
def amount(text: str) -> int:
    """A quantity as a whole number, rounded up; 0 for what is none, as for nothing."""
    return _rounded(text, 1)


@lru_cache(maxsize=4096)
def milli(text: str) -> int:
    """A quantity in thousandths, rounded up: CPU cores."""
    return _rounded(text, MILLI)


def _rounded(text: str, times: int) -> int:
    found = _QUANTITY.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        return 0
    number, suffix = found.group(1), found.group(2) or ""
    try:
        if suffix in _BINARY:
            value = Decimal(number) * 2 ** _BINARY[suffix]
        elif suffix in _DECIMAL:
            value = Decimal(number).scaleb(_DECIMAL[suffix])
        else:
            value = Decimal(f"{number}{suffix}")
    except InvalidOperation:
        return 0
    return max(0, min(LARGEST, int((min(value, Decimal(LARGEST)) * times).to_integral_value(ROUND_CEILING))))
