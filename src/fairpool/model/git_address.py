"""Addresses of Git repositories: which are accepted, and why others are not. Pure.

Git takes more than addresses: a word that begins with a dash is an option, `ext::` runs a command, and a plain path is
read with the rights of the process. Only URLs of a few schemes are accepted, without credentials in them.
"""

from __future__ import annotations

import re

from fairpool.model.problem import Problem

SCHEMES = ("https", "http", "git", "file")
_URL = re.compile(r"(https|http|git)://([^/?#\s\\]+)(/[^?#\s\\]*)?|file://(/[^?#\s\\]+)")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_REFERENCE = re.compile(r"[A-Za-z0-9_+=,@][A-Za-z0-9_+=,@./-]*")
LENGTH_MAX = 256


def git_problem(repository: str, branch: str = "", revision: str = "") -> Problem | None:
    """What is wrong with a repository, a branch (empty: the default) and a revision (empty: the tip)."""
    for what, name in (("branch", branch), ("revision", revision)):
        if name and not is_reference(name):
            return Problem(
                f"git.{what}", f"{name!r} is not a valid Git {what}", "use the name of a branch, tag or commit"
            )
    return _repository_problem(repository)


def _repository_problem(repository: str) -> Problem | None:
    shown = repository[:LENGTH_MAX]
    if not repository.isprintable() or len(repository) > LENGTH_MAX:
        return _not_an_address(shown)
    if re.match(r"(ssh://|git\+ssh://|[^/@]+@[^/:]+:)", repository):
        what = f"{_without_credentials(shown)} is an SSH address, which is not supported"
        return Problem("git.ssh", what, "use the HTTPS address of the repository")
    found = _URL.fullmatch(repository)
    if found is None:
        return _not_an_address(_without_credentials(shown))
    if found[4] is not None:
        is_plain = ".." not in found[4].split("/")
        return None if is_plain else Problem("git.path", f"the path in {shown} contains ..", "write it without")
    if "@" in found[2]:
        what = "the address of a repository must not contain a user or password: all members of the project see it"
        return Problem("git.credentials", what, "remove them from the address, and name a credential")
    return None if _HOST.fullmatch(found[2]) else _not_an_address(shown)


def is_reference(name: str) -> bool:
    """Whether it can be the name of a branch, tag or commit; nothing that Git reads as an option or an expression."""
    is_odd = ".." in name or "//" in name or "@{" in name or name.endswith(("/", ".", ".lock"))
    return len(name) <= LENGTH_MAX and not is_odd and _REFERENCE.fullmatch(name) is not None


def _without_credentials(text: str) -> str:
    return re.sub(r"//[^/@]*@", "//***@", text)


def _not_an_address(shown: str) -> Problem:
    what = f"{shown!r} is not the address of a Git repository"
    return Problem(
        "git.address", what, "use a URL: https://host/path, http://host/path, git://host/path or file:///path"
    )
