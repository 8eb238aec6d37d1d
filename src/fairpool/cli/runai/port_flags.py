"""The flags of `runai submit` about ports: `--port`, `--service-type`, `--address`, `--jupyter`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairpool.cli.failure import not_yet
from fairpool.model.problem import Problem

SERVICE_TYPES = {
    "loadbalancer": "LoadBalancer",
    "nodeport": "NodePort",
    "clusterip": "ClusterIP",
    "ingress": "Ingress",
    "portforward": "PortForward",
}
EXTERNAL_URL = "external-url"
PORT_FORWARD = "portforward"
MAPPED = ("nodeport", "loadbalancer", PORT_FORWARD)
"""Types whose `EXTERNAL:CONTAINER` has an effect."""
LOCALHOST = "127.0.0.1"
NOTEBOOK_IMAGE, NOTEBOOK_PORT = "jupyter/scipy-notebook", "8888"
NOTEBOOK_TOKEN = "JUPYTER_TOKEN"
NO_CUSTOM_URL = "the gateway chooses the URL, because it must be a name below the gateway's own"


def kinds(asked: Mapping[str, Any]) -> set[str]:
    return {text.partition(",")[0].lower() for text in asked["service_type"]}


def ports(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Ports and addresses: `--port` with one `--service-type`, or types that name their ports."""
    found: list[dict[str, Any]] = []
    urls: list[dict[str, Any]] = []
    for kind, container, external in _pairs(asked):
        if kind == EXTERNAL_URL:
            urls.append({"container": container})
            continue
        port: dict[str, Any] = {"container": container}
        if external is not None and kind != PORT_FORWARD:  # there it is a port of the client
            port["external"] = external
        if kind in SERVICE_TYPES:
            port["serviceType"] = SERVICE_TYPES[kind]
        found.append(port)
    return {"ports": found, "exposedUrls": urls}


def forwarded(asked: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Local and remote ports that are forwarded while the command runs."""
    return [(external or container, container) for kind, container, external in _pairs(asked) if kind == PORT_FORWARD]


def addresses(asked: Mapping[str, Any]) -> list[str]:
    """Local addresses at which ports are forwarded."""
    return address_list(asked["address"] or LOCALHOST)


def address_list(text: str) -> list[str]:
    """Comma-separated addresses; `localhost` is the loopback address."""
    found = [each.strip() for each in text.split(",") if each.strip()]
    return [LOCALHOST if each == "localhost" else each for each in found]


def _pairs(asked: Mapping[str, Any]) -> Iterator[tuple[str, int, int | None]]:
    """Service type, container port and external port of each."""
    for text in asked["service_type"] or ("",):
        kind, _, rest = text.partition(",")
        inner = [piece.partition("=") for piece in rest.split(",") if piece]
        numbers = [value for key, _, value in inner if key == "port"] or list(asked["port"])
        for container, external in map(port, numbers):
            yield kind.lower(), container, external


def port(text: str) -> tuple[int, int | None]:
    """Container and external port, from `8888` or `external:container`; 0 if it is not valid."""
    external, colon, container = text.rpartition(":")
    if not container.isdigit() or (colon and not external.isdigit()):
        return 0, None
    return int(container), int(external) if colon else None


def problems(asked: Mapping[str, Any]) -> list[Problem]:
    """Everything that is wrong with these flags."""
    found = [
        Problem("flag.port", f"--port {text!r} is not a valid port", "write 8888 or EXTERNAL:CONTAINER, up to 65535")
        for text in asked["port"]
        if not 1 <= port(text)[0] <= 65535 or not 1 <= (port(text)[1] or 1) <= 65535
    ]
    for text in asked["service_type"]:
        kind = text.partition(",")[0].lower()
        if "custom-url=" in text:
            found.append(not_yet("custom-url", f"remove it: {NO_CUSTOM_URL}"))
        if kind not in SERVICE_TYPES and kind != EXTERNAL_URL:
            choices = ", ".join([*SERVICE_TYPES, EXTERNAL_URL])
            found.append(Problem("flag.service_type", f"unknown service type {kind!r}", f"use one of {choices}"))
    if asked["service_type"] and not asked["port"] and not any("port=" in text for text in asked["service_type"]):
        found.append(Problem("flag.no_port", "--service-type needs a port", "add --port 8888"))
    if asked["address"] and PORT_FORWARD not in kinds(asked):
        fix = "add --service-type=portforward, or use `runai port-forward --address`"
        found.append(Problem("flag.address", "--address is for forwarded ports", fix))
    if forwarded(asked) and asked["attach"]:
        what = "--attach and --service-type=portforward cannot be used together"
        found.append(Problem("flag.attach_and_forward", what, "attach from another terminal: `runai attach JOB`"))
    return found


def unmapped(asked: Mapping[str, Any]) -> list[Problem]:
    """External ports that no type of service opens."""
    return [
        Problem(
            "port.external",
            f"an external port ({external}:{container}) needs --service-type=nodeport or loadbalancer",
            f"add it, or write --port {container}",
        )
        for kind, container, external in _pairs(asked)
        if external not in (None, container) and kind not in MAPPED
    ]


def with_kept_type(asked: Mapping[str, Any], current: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the type of service that the ports of a job have, where only others of them are asked for."""
    types = {each.get("serviceType") for each in current.get("ports") or []} - {None}
    if not asked["port"] or asked["service_type"] or len(types) != 1:
        return asked
    return {**asked, "service_type": (str(types.pop()).lower(),)}


def notebook(asked: Mapping[str, Any], token: str) -> dict[str, Any]:
    """What `--jupyter` stands for, where nothing else was said."""
    found: dict[str, Any] = {
        "interactive": True,
        "image": asked["image"] or NOTEBOOK_IMAGE,
        "port": asked["port"] or (NOTEBOOK_PORT,),
        "service_type": asked["service_type"] or (PORT_FORWARD,),
        "environment": (*asked["environment"], f"{NOTEBOOK_TOKEN}={token}"),
    }
    name = asked["name"] or asked["named"]
    if "ingress" in kinds(found) and name and not asked["command"] and not asked["args"]:
        found |= {"command": ["start-notebook.sh"], "args": [f"--NotebookApp.base_url={name}"]}
    return found
