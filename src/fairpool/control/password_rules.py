"""Rules for new passwords. Pure: everything that is wrong with one is said at once.

Length counts most. Words that guessing programs try first are refused however they are decorated: `P@ssw0rd!2026` is
`password`. Nothing must be of a certain kind of character unless an administrator wants it so.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from fairpool.model.problem import Problem

NAME_MIN = 4
"""Shorter names are part of many words."""
LETTERS = str.maketrans("@4301!57$", "aaeoiists")
ENDS = re.compile(r"^[\d\W_]+|[\d\W_]+$")
WORDS = """
abc abcd abcde abcdef access account admin administrator alex amanda andrea andrew angel anthony apple asdf asdfg
asdfgh asdfghjkl ashley austin autumn babygirl bailey banana baseball basketball batman bigdaddy blink buster
butterfly changeme charlie cheese chelsea chocolate cluster company computer cookie correcthorsebatterystaple daniel
default demo diamond donald dragon dubsmash eminem fairpool ferrari flower football freedom friends fuckyou ginger
guest hannah harley hello hockey hunter iloveyou internet jennifer jessica jesus jordan joshua justin killer letmein
liverpool login london loveme lovely maggie manager master matrix matthew merlin michael michelle minecraft monkey
monster mustang myspace nicole nothing ninja nvidia orange pass passwd password passphrase passwort patrick pepper
pokemon princess purple qazwsx qqww qwer qwert qwerty qwertyuiop qwertz ranger richard robert root runai samantha
samsung secret secure shadow silver slipknot soccer spring starwars summer sunshine superman server system taylor
temp tester testing test thomas thunder tigger trustno unknown user vanessa welcome whatever william winter yankees
yellow zaq zxcv zxcvbn zxcvbnm
"""
COMMON = frozenset(WORDS.split())
ROWS = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "yxcvbnm")


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordRules:
    """What an administrator asks of passwords."""

    least: int = 8
    classes: int = 1
    """Kinds of characters: lower case, upper case, digits, others."""
    refuses_common: bool = True


def password_problems(password: str, user: str, rules: PasswordRules) -> list[Problem]:
    """Everything that is wrong with a new password for this user."""
    found = []
    if len(password) < rules.least:
        what = f"this password has {len(password)} characters"
        found.append(Problem("access.short_password", what, f"use at least {rules.least}"))
    classes = _classes(password)
    if classes < rules.classes:
        what = f"this password has {classes} of the four kinds of characters: a-z, A-Z, 0-9 and others"
        found.append(Problem("access.plain_password", what, f"use at least {rules.classes} of them"))
    if _is_name(password, user):
        what = "this password is the user name, or contains it"
        found.append(Problem("access.name_as_password", what, "choose one that has nothing to do with it"))
    if rules.refuses_common and _is_common(password):
        what = "this password is one of those that guessing programs try first"
        found.append(Problem("access.common_password", what, "use several unrelated words"))
    return found


def _classes(password: str) -> int:
    kinds = {
        "lower" if each.islower() else "upper" if each.isupper() else "digit" if each.isdigit() else "other"
        for each in password
    }
    return len(kinds)


def _is_name(password: str, user: str) -> bool:
    plain, name = _folded(password), _folded(user)
    local = name.partition("@")[0]
    return plain == local or name in plain or (len(local) >= NAME_MIN and local in plain)


def _is_common(password: str) -> bool:
    plain = _folded(password)
    bare = ENDS.sub("", plain)
    forms = {plain, bare, ENDS.sub("", plain.translate(LETTERS)), bare.translate(LETTERS)}
    words = {re.sub(r"[\W_]+", "", form) for form in forms}
    if words & COMMON or len(set(plain)) <= 2:
        return True
    return any(plain in row * 3 or plain in row[::-1] * 3 for row in ROWS)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
