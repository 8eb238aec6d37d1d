"""Storage flags of `runai submit`: `-v`, `--pvc`, `--new-pvc`, `--git-sync`, `--configmap-volume`, `--secret-volume`.
Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairpool.cli.failure import not_yet
from fairpool.model.problem import Problem
from fairpool.model.spelling import did_you_mean

VOLUME_FORM = "the -v parameter must be given in the form of <host_path>:<container_path>:<access_mode>[optional]"
SIZE = re.compile(r"[0-9]+(\.[0-9]+)?([kKMGTP]i?)?B?")
MODES = ("", "ro", "rw")
ACCESS = {"accessmode-rwo": "rwo", "accessmode-rom": "rom", "accessmode-rwm": "rwm"}

Storage = dict[str, list[dict[str, Any]]]


def storage(asked: Mapping[str, Any], problems: list[Problem]) -> Storage:
    """All mounts of a job as the API takes them; what is wrong with the flags goes to `problems`."""
    found: Storage = {}

    def add(kind: str, mount: dict[str, Any] | Problem) -> None:
        if isinstance(mount, Problem):
            problems.append(mount)
        else:
            found.setdefault(kind, []).append(mount)

    for text in asked["volume"]:
        mount = volume(text, asked["nfs_server"], propagated=asked["mount_propagation"])
        add("nfs" if isinstance(mount, dict) and "server" in mount else "hostPath", mount)
    for text in asked["pvc"]:
        add("pvc", claim(text))
    for text in asked["pvc_exists"]:
        add("pvc", existing_claim(text))
    for text in asked["new_pvc"]:
        add("pvc", new_claim(text))
    for text in asked["git_sync"]:
        add("git", git(text))
    for text in asked["configmap_volume"]:
        add("configMapVolume", config_map(text))
    for text in asked["secret_volume"]:
        add("secretVolume", secret_files(text))
    if asked["s3"]:
        problems.append(not_yet("--s3", "download the data in the job, with credentials from environment variables"))
    return found


def on_this_machine(text: str, folder: str | None) -> str | Problem:
    """`-v .:/w` with the current folder, if the job runs on this machine; `folder` is None if not."""
    host, colon, rest = text.partition(":")
    if not colon or not host or host.startswith("/"):
        return text
    if folder is None:
        what = f"-v {text}: {host} is a path on this machine, but the job runs on another"
        return Problem(
            "flag.volume_elsewhere", what, "upload the folder with --workdir, or use a full path on the node"
        )
    full = os.path.normpath(os.path.join(folder, host))
    if not host.startswith(".") and not os.path.exists(full):
        what = f"-v {text}: there is no folder {host} in the current folder"
        return Problem(
            "flag.volume_missing", what, f"for a claim write --pvc {text}; for a folder, ./{host} or a full path"
        )
    return f"{full}:{rest}"


def volume(text: str, nfs_server: str | None = None, *, propagated: bool = False) -> dict[str, Any] | Problem:
    """`host:container[:ro|rw][:nfs-host]`."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 4 or not parts[0].startswith("/") or not parts[1].startswith("/"):
        return Problem("flag.volume", f"{VOLUME_FORM} (got {text!r})", "")
    mode = parts[2] if len(parts) > 2 else ""
    if mode not in MODES:
        return _bad_mode(mode)
    mount: dict[str, Any] = {"path": parts[0], "mountPath": parts[1]}
    if mode == "ro":
        mount["readOnly"] = True
    server = parts[3] if len(parts) > 3 else nfs_server
    if server:
        return {"server": server, **mount}
    return {**mount, "mountPropagation": "HostToContainer"} if propagated else mount


def claim(text: str) -> dict[str, Any] | Problem:
    """`name:path[:ro|rw]` of one that exists, `[class]:size:path[:ro]` of a new one."""
    parts = text.split(":")
    if len(parts) == 3 and parts[1].startswith("/") and not SIZE.fullmatch(parts[1]):
        return _existing(parts[0], parts[1], parts[2])
    if len(parts) == 2:
        return _existing(parts[0], parts[1], "")
    if len(parts) in (3, 4) and (not parts[0] or SIZE.fullmatch(parts[1])):
        return _new(parts[0], parts[1], parts[2], parts[3] if len(parts) == 4 else "")
    what = f"--pvc {text!r} is neither name:path[:ro] nor [storage-class]:size:path[:ro]"
    return Problem("flag.pvc", what, "name an existing claim, as in --pvc data:/data")


def existing_claim(text: str) -> dict[str, Any] | Problem:
    """`claimname=..,path=..`."""
    said = pairs("--pvc-exists", text, ("claimname", "path"), required=("claimname", "path"))
    return said if isinstance(said, Problem) else _existing(said["claimname"], said["path"], "")


def new_claim(text: str) -> dict[str, Any] | Problem:
    """`claimname=..,storageclass=..,size=..,path=..,accessmode-rwo|rom|rwm,ro,ephemeral`."""
    words = ("claimname", "storageclass", "size", "path", *ACCESS, "ro", "ephemeral")
    said = pairs("--new-pvc", text, words, required=("size", "path"), switches=(*ACCESS, "ro", "ephemeral"))
    if isinstance(said, Problem):
        return said
    info: dict[str, Any] = {"size": said["size"]}
    if said.get("storageclass"):
        info["storageClass"] = said["storageclass"]
    for word, mode in ACCESS.items():
        if word in said:
            info["accessMode"] = mode
    mount: dict[str, Any] = {"path": said["path"], "existingPvc": False, "claimInfo": info}
    if said.get("claimname"):
        mount["claimName"] = said["claimname"]
    switches = {"readOnly": "ro" in said, "ephemeral": "ephemeral" in said}
    return mount | {name: True for name, is_on in switches.items() if is_on}


def git(text: str) -> dict[str, Any] | Problem:
    """`source=REPO,branch=,rev=,target=`, or with the newer words `repository=`, `path=` and `secret=`."""
    words = ("source", "branch", "rev", "username", "password", "target", "repository", "path", "secret")
    said = pairs("--git-sync", text, words)
    if isinstance(said, Problem):
        return said
    if "username" in said or "password" in said:
        what = "--git-sync with username and password: other users of this machine can read a command line"
        return Problem(
            "flag.git_password",
            what,
            "ask for a credential (runai-adm credential create NAME --type git), and name it: secret=NAME",
        )
    source = said.get("source") or said.get("repository")
    if not source:
        return Problem("flag.missing_key", f"--git-sync {text!r} is missing source", "add source=...")
    mount = {"repository": source, "path": said.get("target") or said.get("path") or "/code"}
    if "rev" not in said or "branch" in said:
        mount["branch"] = said.get("branch", "master")
    given = {"revision": said.get("rev"), "credential": said.get("secret")}
    return {**mount, **{key: value for key, value in given.items() if value}}


def config_map(text: str) -> dict[str, Any] | Problem:
    """`name=,path=`."""
    said = pairs("--configmap-volume", text, ("name", "path"), required=("name", "path"))
    return said if isinstance(said, Problem) else {"name": said["name"], "mountPath": said["path"]}


def secret_files(text: str) -> dict[str, Any] | Problem:
    """`name=,path=`."""
    said = pairs("--secret-volume", text, ("name", "path"), required=("name", "path"))
    return said if isinstance(said, Problem) else {"name": said["name"], "mountPath": said["path"]}


def pairs(
    flag: str, text: str, words: Sequence[str], *, required: Iterable[str] = (), switches: Sequence[str] = ()
) -> dict[str, str] | Problem:
    """`key=value,key=value,switch` as a mapping."""
    found: dict[str, str] = {}
    for piece in filter(None, (each.strip() for each in text.split(","))):
        key, equals, value = piece.partition("=")
        if key not in words:
            fix = did_you_mean(key, words, f"use {', '.join(words)}")
            return Problem("flag.unknown_key", f"{flag} has no key {key!r}", fix)
        if bool(equals) == (key in switches):
            fix = f"write {key}" if key in switches else f"write {key}=..."
            return Problem("flag.key_form", f"{flag}: {piece!r} has the wrong form", fix)
        found[key] = value
    missing = [key for key in required if not found.get(key)]
    if missing:
        return Problem("flag.missing_key", f"{flag} {text!r} is missing {', '.join(missing)}", f"add {missing[0]}=...")
    return found


def _existing(name: str, path: str, mode: str) -> dict[str, Any] | Problem:
    if mode not in MODES:
        return _bad_mode(mode)
    if not name or not path.startswith("/"):
        return Problem(
            "flag.pvc", f"--pvc {name}:{path} needs a claim name and an absolute path", "write --pvc data:/data"
        )
    return {"claimName": name, "path": path, **({"readOnly": True} if mode == "ro" else {})}


def _new(storage_class: str, size: str, path: str, mode: str) -> dict[str, Any] | Problem:
    if mode not in MODES:
        return _bad_mode(mode)
    info = {"size": size, **({"storageClass": storage_class} if storage_class else {})}
    mount = {"path": path, "existingPvc": False, "claimInfo": info}
    return {**mount, "readOnly": True} if mode == "ro" else mount


def _bad_mode(mode: str) -> Problem:
    what = f"invalid readonly parameter given: '{mode}'. this parameter may either be empty, ':ro' or ':rw'"
    return Problem("flag.read_only", what, "")
