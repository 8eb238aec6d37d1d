"""Flags of `fairpool cluster` for a cluster on Kubernetes, and which flags do not go together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairpool.cli.failure import UNUSABLE, fail
from fairpool.cli.server_flags import address_of, warn_of_password
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.engines.kubernetes.equipment_plan import EquipmentSettings
    from fairpool.engines.kubernetes.pod_settings import PodSettings
    from fairpool.platform.kubernetes_cluster import KubernetesOptions

C = TypeVar("C", bound=Callable[..., Any])

LOCAL, KUBERNETES = "local", "kubernetes"
LEDGER_VARIABLE = "FAIRPOOL_LEDGER"
DEFAULT_SAMPLES = "127.0.0.1:8082"

ENGINE = click.option(
    "--engine",
    envvar="FAIRPOOL_ENGINE",
    type=click.Choice([LOCAL, KUBERNETES]),
    default=LOCAL,
    show_default=True,
    help="Where pods run: on this machine, or on a Kubernetes cluster. Also: FAIRPOOL_ENGINE.",
)
KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="How to reach the Kubernetes API server. Default: KUBECONFIG, ~/.kube/config, or the service account of the "
    "pod that this runs in.",
)
CONTEXT = click.option(
    "--context", default="", metavar="NAME", help="Context of the kubeconfig. Default: its current context."
)
NAMESPACE = click.option(
    "--namespace",
    envvar="FAIRPOOL_NAMESPACE",
    default="fairpool",
    show_default=True,
    metavar="NAME",
    help="Namespace of Fairpool's own objects; pods go to those of their projects. Also: FAIRPOOL_NAMESPACE.",
)
LEDGER = click.option(
    "--ledger",
    envvar=LEDGER_VARIABLE,
    default="",
    metavar="FILE|URL",
    help="Where the scheduler records its decisions: a file, for one replica, or postgresql://USER@HOST/NAME, from "
    "where another replica can take over. Put a password into PGPASSFILE, PGPASSWORD or this variable. Default: a "
    f"file in the data directory. Also: {LEDGER_VARIABLE}.",
)


def _setting(name: str, metavar: str, words: str, **more: Any) -> Callable[[C], C]:
    """A flag whose environment variable is named after it."""
    variable = f"FAIRPOOL_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(name, envvar=variable, metavar=metavar, help=f"{words} Also: {variable}.", **more)


YES_OR_NO = click.Choice(["yes", "no"])
CREATE_NAMESPACES = _setting(
    "--create-namespaces",
    "yes|no",
    "Create namespace runai-PROJECT for each project; otherwise use those that carry the label runai/queue=PROJECT.",
    type=YES_OR_NO,
    default="yes",
    show_default=True,
)
INGRESS_HOST = _setting(
    "--ingress-host",
    "HOST",
    "Serve ingress ports of workloads by the cluster's ingress controller, below this host name. Default: by the "
    "gateway, which lets only members of the project in.",
    default="",
)
INGRESS_CLASS = _setting(
    "--ingress-class", "NAME", "Class of these ingresses. Default: the cluster's default class.", default=""
)
INGRESS_TLS_SECRET = _setting(
    "--ingress-tls-secret", "NAME", "Secret with their certificate, in each project's namespace.", default=""
)
HOST_PATHS = _setting(
    "--host-path", "PATH", "Let pods mount this directory of their node, and what is below. Repeatable.", multiple=True
)
RUNTIME_CLASS = _setting(
    "--runtime-class", "NAME", "Runtime class of pods with a part of a GPU, such as nvidia. Default: none.", default=""
)
RESERVATION_IMAGE = _setting(
    "--reservation-image",
    "IMAGE",
    "Image with a shell for pods that hold a GPU for others which share it. Default: no parts of GPUs.",
    default="",
)
SHARE_LIBRARY = _setting(
    "--share-library",
    "PATH",
    "Where nodes have the library that keeps pods within their part of a GPU. Default: nodes do not have it.",
    default="",
)
UNENFORCED_SHARES = _setting(
    "--unenforced-shares",
    "yes|no",
    "Let pods have parts of GPUs although nothing keeps them within these.",
    type=YES_OR_NO,
    default="no",
    show_default=True,
)
NODE_GONE_AFTER = _setting(
    "--node-gone-after",
    "SECONDS",
    "Replace the pods of a node that is cut off when its agent (`fairpool node-agent`) has not renewed its lease for "
    "so long; at least 5/4 of the time after which agents kill pods.",
    type=click.FloatRange(1, 86_400),
    default=300.0,
    show_default=True,
)
SAMPLES_LISTEN = _setting(
    "--samples-listen",
    "HOST:PORT",
    "Take samples of what pods use from agents on nodes (`fairpool node-agent`) at this address. Default: nothing is "
    "measured.",
    default="",
)
IMAGES = _setting(
    "--image",
    "NAME=IMAGE",
    "Use this image where workloads name that one, such as python=registry.example.com/python:3.12. NAME may be a "
    "pattern, such as run-ai-demo/*. Repeatable.",
    multiple=True,
)
SUPPORT_IMAGE = _setting(
    "--support-image",
    "IMAGE",
    "Fairpool's own image: receives uploaded folders in pods, and is what run-ai-demo/quickstart means. Default: there "
    "is neither.",
    default="",
)
GIT_IMAGE = _setting(
    "--git-image",
    "IMAGE",
    "Image with Git and a shell, which clones repositories in pods. Default: the support image.",
    default="",
)
FLAGS = (
    *(KUBECONFIG, CONTEXT, NAMESPACE, LEDGER, CREATE_NAMESPACES, INGRESS_HOST, INGRESS_CLASS, INGRESS_TLS_SECRET),
    *(HOST_PATHS, RUNTIME_CLASS, RESERVATION_IMAGE, SHARE_LIBRARY, UNENFORCED_SHARES, NODE_GONE_AFTER, SAMPLES_LISTEN),
    *(IMAGES, SUPPORT_IMAGE, GIT_IMAGE),
)
OF_LOCAL = ("nodes", "node", "runtime", "disk_reserve", "hide")
OF_KUBERNETES = (
    *("kubeconfig", "context", "namespace", "ledger", "create_namespaces", "ingress_host", "ingress_class"),
    *("ingress_tls_secret", "host_path", "runtime_class", "reservation_image", "share_library", "unenforced_shares"),
    *("node_gone_after", "samples_listen", "image", "support_image", "git_image"),
)


def check_engine(context: click.Context, engine: str) -> None:
    """End the command if a flag was typed that has no effect on this engine."""
    others, needed = (OF_KUBERNETES, KUBERNETES) if engine == LOCAL else (OF_LOCAL, LOCAL)
    names = {each.name: each.opts[0] for each in context.command.params}
    source = click.core.ParameterSource
    typed = [
        names[each] for each in others if context.get_parameter_source(each) in (source.COMMANDLINE, source.DEFAULT_MAP)
    ]
    if typed:
        what = f"{', '.join(typed)}: only for clusters with --engine {needed}"
        fix = "leave out the flag" if engine == KUBERNETES else f"add --engine {KUBERNETES}, or leave out the flag"
        fail([Problem("cluster.engine", what, fix)], UNUSABLE)


def kubernetes_options(context: click.Context, given: Mapping[str, Any], allowed: tuple[str, ...]) -> KubernetesOptions:
    """What the flags say; ends the command if something is wrong with them."""
    from fairpool.platform.kubernetes_cluster import read_options

    os.environ.pop(LEDGER_VARIABLE, None)  # no program that we start has to know it
    if context.get_parameter_source("ledger") is click.core.ParameterSource.COMMANDLINE:
        warn_of_password(given["ledger"], "--ledger")
    options = read_options(
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        namespace=given["namespace"],
        ledger=given["ledger"],
        pods=_pod_settings(given, allowed),
        equipment=_equipment_settings(given),
        node_gone_after_s=given["node_gone_after"],
        samples=address_of(given["samples_listen"], DEFAULT_SAMPLES) if given["samples_listen"] else None,
    )
    if isinstance(options, list):
        fail(options, UNUSABLE)
    return options


def _pod_settings(given: Mapping[str, Any], allowed: tuple[str, ...]) -> PodSettings:
    from fairpool.engines.kubernetes.pod_settings import PodSettings
    from fairpool.model.container_rules import Privilege
    from fairpool.model.image_name import is_reference

    if wrong := [each for each in given["host_path"] if not each.startswith("/")]:
        what = f"--host-path: {wrong[0]!r} is not an absolute path"
        fail([Problem("kubernetes.host_path", what, "expected e.g. /data")], UNUSABLE)
    images = [(name.strip(), image.strip()) for name, _, image in (each.partition("=") for each in given["image"])]
    named = (*(image for _, image in images), *filter(None, (given["support_image"], given["git_image"])))
    if wrong := [each for each in named if not is_reference(each)]:
        what = f"--image, --support-image, --git-image: {wrong[0]!r} is not the name of an image"
        fix = "expected e.g. --image python=registry.example.com/library/python:3.12"
        fail([Problem("kubernetes.image", what, fix)], UNUSABLE)
    return PodSettings(
        privileges=frozenset(Privilege(each) for each in allowed),
        host_paths=tuple(given["host_path"]),
        runtime_class=given["runtime_class"],
        reservation_image=given["reservation_image"],
        share_library=given["share_library"],
        unenforced_shares=given["unenforced_shares"] == "yes",
        images=tuple(images),
        support_image=given["support_image"],
        git_image=given["git_image"],
    )


def _equipment_settings(given: Mapping[str, Any]) -> EquipmentSettings:
    from fairpool.engines.kubernetes.equipment_plan import EquipmentSettings
    from fairpool.engines.kubernetes.network_objects import IngressSettings

    ingress = None
    if given["ingress_host"]:
        ingress = IngressSettings(
            host=given["ingress_host"],
            class_name=given["ingress_class"],
            tls_secret=given["ingress_tls_secret"],
        )
    elif given["ingress_class"] or given["ingress_tls_secret"]:
        what = "--ingress-class and --ingress-tls-secret have no effect without --ingress-host"
        fail([Problem("kubernetes.ingress", what, "add --ingress-host")], UNUSABLE)
    return EquipmentSettings(create_namespaces=given["create_namespaces"] == "yes", ingress=ingress)
