"""Containers that fill volumes of a pod before its program starts: with an uploaded folder, with clones. Pure.

They have the restrictions of the pod's own container and see nothing but the volume that they fill. Each pod has its
own copy. What they write may be changed by any user of the pod, because it is not known which one its image has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpool.agent.clone_plan import FILE, LOGIN, PROXIES, SCRIPT, clone_variables
from fairpool.engines.kubernetes.names import secret_name
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.model.git_address import git_problem
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import GitClone, Volume

UPLOAD = "upload"
"""The container that waits for an uploaded folder, and the volume that it fills."""
CLONE = "clone-"
"""How names of containers that clone begin; the number of the volume follows."""
FILLED = "/fill"
"""Where such a container has its volume."""
RECEIVED = "/tmp/received"
"""Exists in the container once the folder is complete."""
ARRIVAL_S = 600
READABLE = 0o444
FILE_BLOCK = 512
"""What `ulimit -f` counts in."""
WAIT = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
end = time.monotonic() + {ARRIVAL_S}
while not os.path.exists("{RECEIVED}"):
    if time.monotonic() > end:
        sys.exit("the uploaded folder did not arrive within {ARRIVAL_S} s")
    time.sleep(0.1)
"""
RECEIVE = f"""
import os, sys, tarfile
os.umask(0)
count = 0
with tarfile.open(fileobj=open(0, "rb", buffering=0), mode="r|gz") as archive:
    for entry in archive:
        if not (entry.isreg() or entry.isdir()):
            sys.exit("neither a file nor a folder: " + entry.name)
        mode = 0o777 if entry.isdir() or entry.mode & 0o100 else 0o666
        archive.extract(entry.replace(mode=None, uname=None, gname=None, deep=False), "{FILLED}", filter="data")
        os.chmod(os.path.join("{FILLED}", entry.name), mode)
        count += 1
if count != int(sys.argv[1]):
    sys.exit(f"only {{count}} of {{sys.argv[1]}} files and folders arrived")
open("{RECEIVED}", "w").close()
"""
"""Run in the waiting container, with an archive as its input and the number of entries as its argument."""
GUARD = r"""
umask 0
ulimit -f "$SIZE_BLOCKS"
timeout -s KILL "$TIMEOUT_S" sh -c "$SCRIPT" clone "$@"
code=$?
[ $code != 137 ] || echo "it took longer than $TIMEOUT_S s, the limit of the administrator"
exit $code
"""
"""How a clone is kept within its limits; that of all its files together is the volume's."""


def preparation_objection(volume: Volume, settings: PodSettings) -> Problem | None:
    """Why this volume cannot be filled on this cluster."""
    at, allow = volume.target, "or ask the administrator to set --support-image"
    if volume.uploaded and not settings.support_image:
        what = f"an uploaded folder cannot be mounted at {at}: this cluster has no image to receive it with"
        return Problem("upload.kubernetes", what, f"put the files into the image or a volume claim, {allow}")
    if volume.git is None:
        return None
    if not settings.clones_with:
        what = f"a Git repository cannot be cloned to {at}: this cluster has no image with Git"
        return Problem("git.kubernetes", what, "clone it in the command of the job, or ask for --git-image")
    if volume.git.repository.startswith(FILE):
        what = f"{volume.git.repository} is a path of one machine, which pods on Kubernetes do not have"
        return Problem("git.kubernetes", what, "use the HTTPS address of the repository")
    return git_problem(volume.git.repository, volume.git.branch, volume.git.revision)


def preparing_containers(
    order: StartOrder, settings: PodSettings, security: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The containers of a pod that run before its own, with this security context, and the volumes of their logins."""
    containers, volumes = [], []
    if any(volume.uploaded for volume in order.program.volumes):
        command = ["python3", "-u", "-c", WAIT]
        containers.append(_container(UPLOAD, settings.support_image, command, UPLOAD, security))
    for number, volume in enumerate(order.program.volumes):
        if volume.git is None:
            continue
        made = _clone(number, volume, volume.git, order, settings, security)
        if volume.credential:
            name = f"login-{number}"
            secret = {"secretName": secret_name(order.name, volume.credential), "defaultMode": READABLE}
            volumes.append({"name": name, "secret": secret})
            made["volumeMounts"].append({"name": name, "mountPath": LOGIN, "readOnly": True})
        containers.append(made)
    return containers, volumes


def filled_volume(number: int, volume: Volume) -> dict[str, Any] | None:
    """The volume of a pod that one of the containers fills; None: none does."""
    if volume.uploaded:
        return {"name": UPLOAD, "emptyDir": {}}
    if volume.git is not None:
        return {"name": f"volume-{number}", "emptyDir": {"sizeLimit": str(volume.git.size_bytes)}}
    return None


def cloned_by(container: str, order: StartOrder) -> str:
    """The repository that a container clones; empty: it does not."""
    number = container.removeprefix(CLONE)
    if not container.startswith(CLONE) or not number.isdecimal() or int(number) >= len(order.program.volumes):
        return ""
    clone = order.program.volumes[int(number)].git
    return clone.repository if clone is not None else ""


def _clone(
    number: int,
    volume: Volume,
    clone: GitClone,
    order: StartOrder,
    settings: PodSettings,
    security: Mapping[str, Any],
) -> dict[str, Any]:
    words = (clone.repository, clone.branch, clone.revision, clone.repository, FILLED)
    command = ["sh", "-c", GUARD.replace("$", "$$"), "clone", *(word.replace("$", "$$") for word in words)]
    made = _container(f"{CLONE}{number}", settings.clones_with, command, f"volume-{number}", security)
    proxies = {name: value for name, value in order.program.environment if name in PROXIES}
    own = {
        "SCRIPT": SCRIPT,
        "HOME": "/tmp",
        "TIMEOUT_S": str(clone.timeout_s),
        "SIZE_BLOCKS": str(max(1, clone.size_bytes // FILE_BLOCK)),
    }
    values = {**proxies, **clone_variables(has_login=bool(volume.credential)), **own}
    made["env"] = [{"name": name, "value": value.replace("$", "$$")} for name, value in values.items()]
    return made


def _container(name: str, image: str, command: list[str], volume: str, security: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "command": command,
        "volumeMounts": [{"name": volume, "mountPath": FILLED}],
        "securityContext": dict(security),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
