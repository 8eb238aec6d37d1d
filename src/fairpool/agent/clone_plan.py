"""Plans the clones of Git repositories that a pod's volumes ask for: each a program in a sandbox of its own.

The sandbox is that of the pod: its user, its view of the machine, its limits. Git runs in it with nothing but the
repository's address, so that a hostile repository can do no more than the pod itself could. The plan is plain data for
the shim (`git_clone.py`), which carries it out before the pod's program starts, whatever runtime starts that.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from fairpool.agent.environment import STANDARD_PATH
from fairpool.agent.process_table import POD_UUID
from fairpool.agent.root_filesystem import HOME, OWN
from fairpool.model.git_address import git_problem
from fairpool.model.problem import Problem
from fairpool.model.spec import GitClone, Volume

CLONE = f"{OWN}/clone"
"""Where the sandbox has the directory that becomes the volume."""
REPOSITORY = f"{OWN}/repository"
"""Where it has a repository of the machine."""
LOGIN = f"{OWN}/login"
"""Where it has the files of the credential. Git asks a script that reads them, so that no value is on a command line or
in an environment."""
CONFIGURATION, ANSWER = "/tmp/.fairpool-git", "/tmp/.fairpool-git.answer"
FILE = "file://"
PROXIES = frozenset(
    name for word in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (word, word.upper())
)
"""Variables of a pod that Git takes too."""
SCRIPT = r"""
address=$1 branch=$2 revision=$3 shown=$4
cd "$5" || exit 1
printf '[safe]\n\tdirectory = *\n' > "$GIT_CONFIG_GLOBAL" || exit 1
if [ -n "$LOGIN" ]; then
    printf '#!/bin/sh\ncase $1 in User*) cat "$LOGIN/user" ;; *) cat "$LOGIN/password" ;; esac\n' > "$GIT_ASKPASS"
    printf '[http]\n\tfollowRedirects = false\n' >> "$GIT_CONFIG_GLOBAL"
    chmod 700 "$GIT_ASKPASS" || exit 1
fi
if [ -n "$revision" ]; then
    git clone --quiet --no-checkout ${branch:+"--branch=$branch"} -- "$address" . || exit
    git checkout --quiet --detach "$revision" -- || exit
elif ! git clone --quiet --depth=1 ${branch:+"--branch=$branch"} -- "$address" . 2> "$GIT_CONFIG_GLOBAL.errors"; then
    if ! grep -q 'dumb http' "$GIT_CONFIG_GLOBAL.errors"; then cat "$GIT_CONFIG_GLOBAL.errors"; exit 1; fi
    git clone --quiet ${branch:+"--branch=$branch"} -- "$address" . || exit
fi
git remote set-url origin "$shown" && git rev-parse HEAD
"""


def file_of(clone: GitClone) -> str:
    """The path of a repository on the machine; empty: it is elsewhere."""
    return clone.repository.removeprefix(FILE) if clone.repository.startswith(FILE) else ""


def clone_problem(clone: GitClone, *, is_isolating: bool) -> Problem | None:
    """Why this repository cannot be cloned here."""
    if not is_isolating:
        what = "a Git repository can only be cloned where pods are isolated, and this machine does not permit that"
        return Problem("git.no_isolation", what, "clone it in the job's command")
    if shutil.which("git", path=":".join(STANDARD_PATH)) is None:
        return Problem("git.missing", "git is not installed on this node", "ask the administrator to install it")
    return git_problem(clone.repository, clone.branch, clone.revision)


def clone_plan(
    volume: Volume,
    directory: str,
    login: str,
    *,
    pod_uuid: str,
    environment: Sequence[tuple[str, str]],
    view: Mapping[str, Any],
) -> dict[str, Any]:
    """What the shim runs to fill this directory. `login` is a directory in memory with the files `user` and `password`,
    if there is a credential; `environment` is that of the pod's program."""
    clone = volume.git
    assert clone is not None
    path = file_of(clone)
    address = f"{FILE}{REPOSITORY}" if path else clone.repository
    mounts: list[dict[str, Any]] = [{"source": directory, "target": CLONE, "mode": "rw"}]
    if path:
        mounts.append({"source": path, "target": REPOSITORY, "mode": "ro", "is_judged": True})
    if volume.credential:
        mounts.append({"source": login, "target": LOGIN, "mode": "ro"})
    proxies = {name: value for name, value in environment if name in PROXIES}
    return {
        "repository": clone.repository,
        "target": volume.target,
        "directory": directory,
        "timeout_s": clone.timeout_s,
        "size_bytes": clone.size_bytes,
        "launch": {
            "argv": ["sh", "-c", SCRIPT, "clone", address, clone.branch, clone.revision, clone.repository, CLONE],
            "env": {**proxies, **clone_variables(has_login=bool(volume.credential)), POD_UUID: pod_uuid},
            "cwd": "/",
            "host_name": "",
            "mounts": mounts,
            "view": view,
            "tty": False,
            "stdin": False,
        },
    }


def clone_variables(*, has_login: bool) -> dict[str, str]:
    """Git asks nothing, reads no configuration of users, and speaks no protocol that runs commands."""
    login = {"LOGIN": LOGIN} if has_login else {}
    return {
        **login,
        "PATH": ":".join(STANDARD_PATH),
        "HOME": HOME,
        "LC_ALL": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": ANSWER if has_login else "/bin/false",
        "GIT_CONFIG_GLOBAL": CONFIGURATION,
        "GIT_ALLOW_PROTOCOL": "http:https:git:file",
    }
