"""`fairpool kubernetes-cleanup`: what is done before Fairpool is uninstalled from a Kubernetes cluster."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import click

from fairpool.cli.failure import UNUSABLE, fail
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.engines.kubernetes.cleanup import Cleaned
    from fairpool.platform.data_directory import DataDirectory

REACHED_BY = ("--kubeconfig", "--context", "--namespace")


@click.command(
    name="kubernetes-cleanup", epilog="Example: fairpool kubernetes-cleanup --scale-down runai/fairpool-cluster"
)
@click.option(
    "--scale-down",
    default="",
    metavar="NAMESPACE/NAME",
    help="First stop the scheduler: scale this StatefulSet to zero, and wait until its pods are gone.",
)
@click.option("--delete-pods", is_flag=True, help="Delete the pods of workloads too. Default: they keep running.")
def kubernetes_cleanup(scale_down: str, delete_pods: bool) -> None:
    """Remove the finalizers of Fairpool from all pods of a Kubernetes cluster, before it is uninstalled.

    The API server is that of KUBECONFIG, of ~/.kube/config, or of the cluster that this runs in. May be repeated.
    """
    from fairpool.engines.kubernetes.failures import KubernetesError

    namespace, _, name = scale_down.partition("/")
    if scale_down and not (namespace and name):
        what = f"--scale-down: {scale_down!r} does not name a StatefulSet"
        fail([Problem("cleanup.target", what, "expected e.g. runai/fairpool-cluster")], UNUSABLE)
    try:
        done = asyncio.run(_clean_up(namespace, name, delete_pods))
    except KubernetesError as error:
        fail([Problem("cleanup.failed", str(error), "mend it and run the command again; nothing is done twice")], 1)
    click.echo(f"Removed the finalizers of {done.released} pods.")
    if delete_pods:
        click.echo(f"Deleted {done.deleted} pods.")


async def _clean_up(namespace: str, name: str, delete_pods: bool) -> Cleaned:
    from fairpool.engines.kubernetes.cleanup import clean_up, stop_scheduler
    from fairpool.engines.kubernetes.client import KubernetesClient
    from fairpool.engines.kubernetes.kubeconfig import find_api_server

    async with KubernetesClient(find_api_server()) as client:
        if name:
            await stop_scheduler(client, namespace, name)
        return await clean_up(client, delete_pods=delete_pods)


def stop_pods(data_directory: DataDirectory, grace_s: int | None, patience_s: float) -> int:
    """Stop the pods of the cluster that a data directory belongs to: how many there were. Raises `PlatformError`."""
    from fairpool.engines.kubernetes.cleanup import confirm_installation, stop_pods
    from fairpool.engines.kubernetes.client import KubernetesClient
    from fairpool.engines.kubernetes.failures import KubernetesError
    from fairpool.engines.kubernetes.kubeconfig import find_api_server
    from fairpool.platform.data_directory import PlatformError

    kubeconfig, context, namespace = _reached_by(data_directory)

    async def stopped() -> int:
        async with KubernetesClient(find_api_server(kubeconfig, context)) as client:
            await confirm_installation(client, namespace, _installation(data_directory))
            return await stop_pods(client, grace_s, patience_s)

    try:
        return asyncio.run(stopped())
    except KubernetesError as error:
        fix = "run the command again, or `fairpool kubernetes-cleanup --delete-pods`"
        raise PlatformError(Problem("down.pods_left", str(error), fix)) from error


def _reached_by(data_directory: DataDirectory) -> tuple[str, str, str]:
    """The kubeconfig and the context that the cluster was started with, empty: the usual ones; and its namespace."""
    try:
        flags = json.loads(data_directory.flags.read_text(encoding="utf-8"))["flags"]
        kubeconfig, context, namespace = ((flags.get(each) or [""])[0] for each in REACHED_BY)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return "", "", ""
    return str(kubeconfig), str(context), str(namespace)


def _installation(data_directory: DataDirectory) -> str:
    """Which cluster the directory belongs to; empty: it has never joined as one."""
    try:
        return str(json.loads(data_directory.membership.read_bytes())["installation"])
    except (OSError, ValueError, TypeError, LookupError):
        return ""
