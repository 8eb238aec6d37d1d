"""`fairpool node-agent`: the agent on each node of a Kubernetes cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairpool.cli import kubernetes_flags, server_flags
from fairpool.cli.failure import UNUSABLE, fail
from fairpool.cli.server_flags import DEFAULT_HEALTH
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.platform.node_sampling import SampleTarget

DEFAULT_SAMPLES = "fairpool-cluster:8082"
RENEWALS_MIN = 3
"""How many renewals must fail before pods are killed."""


@click.command(name="node-agent", epilog="Example: fairpool node-agent --node gpu-7 --state /state")
@kubernetes_flags.KUBECONFIG
@kubernetes_flags.CONTEXT
@kubernetes_flags.NAMESPACE
@click.option(
    "--node",
    envvar="FAIRPOOL_NODE",
    required=True,
    metavar="NAME",
    help="Name of the node that this runs on. Also: FAIRPOOL_NODE.",
)
@click.option(
    "--state",
    envvar="FAIRPOOL_STATE",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="What an agent that was killed goes on with: a directory that is there as long as its pod. Also: "
    "FAIRPOOL_STATE.",
)
@click.option(
    "--renew-every",
    envvar="FAIRPOOL_RENEW_EVERY",
    type=click.FloatRange(0.1, 600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two renewals of the node's lease. Also: FAIRPOOL_RENEW_EVERY.",
)
@click.option(
    "--fence-after",
    envvar="FAIRPOOL_FENCE_AFTER",
    type=click.FloatRange(1, 86_400),
    default=240.0,
    show_default=True,
    metavar="SECONDS",
    help="Kill the pods of Fairpool on this node when the API server has not answered for so long: the scheduler "
    "replaces them a minute later (--node-gone-after of `fairpool cluster`). Also: FAIRPOOL_FENCE_AFTER.",
)
@click.option(
    "--samples-to",
    envvar="FAIRPOOL_SAMPLES_TO",
    default="",
    metavar="HOST:PORT",
    help="Send what pods use to the scheduler (--samples-listen of `fairpool cluster`). Default: nothing is measured. "
    "Also: FAIRPOOL_SAMPLES_TO.",
)
@click.option(
    "--samples-token-file",
    envvar="FAIRPOOL_SAMPLES_TOKEN_FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("/samples-token/token"),
    show_default=True,
    metavar="FILE",
    help="Token of this pod for the audience fairpool-samples. Also: FAIRPOOL_SAMPLES_TOKEN_FILE.",
)
@click.option(
    "--cgroups",
    envvar="FAIRPOOL_CGROUPS",
    default="/sys/fs/cgroup",
    show_default=True,
    metavar="PATH",
    help="Where the control groups of the node are mounted. Also: FAIRPOOL_CGROUPS.",
)
@click.option(
    "--pod-name",
    envvar="FAIRPOOL_POD_NAME",
    default="",
    metavar="NAME",
    help="Pod that this runs in; the lease is deleted with it. Also: FAIRPOOL_POD_NAME.",
)
@click.option(
    "--pod-uid", envvar="FAIRPOOL_POD_UID", default="", metavar="UID", help="Its uid. Also: FAIRPOOL_POD_UID."
)
@server_flags.HEALTH_LISTEN
@server_flags.LOG_LEVEL
def node_agent(
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    node: str,
    state: Path,
    renew_every: float,
    fence_after: float,
    samples_to: str,
    samples_token_file: Path,
    cgroups: str,
    pod_name: str,
    pod_uid: str,
    health_listen: str,
    log_level: str,
) -> None:
    """Run on a node of a Kubernetes cluster: tell the scheduler that the node is there, and make sure that nothing runs
    on it any more once it is cut off.

    The chart deploy/helm/fairpool-cluster runs it on every node. It must see the processes of the node (hostPID) and be
    allowed to kill them.
    """
    from fairpool.engines.kubernetes.failures import BadConfiguration
    from fairpool.engines.kubernetes.kubeconfig import find_api_server
    from fairpool.platform.address import listening_socket
    from fairpool.platform.node_agent import NodeAgent, NodeAgentOptions
    from fairpool.platform.server_log import open_log

    if fence_after < RENEWALS_MIN * renew_every:
        what = f"--fence-after {fence_after:g}: less than {RENEWALS_MIN} renewals of {renew_every:g} s"
        fail([Problem("node.fence", what, f"use at least {RENEWALS_MIN * renew_every:g}")], UNUSABLE)
    try:
        server = find_api_server(str(kubeconfig.expanduser().absolute()) if kubeconfig is not None else "", context)
    except BadConfiguration as error:
        fix = "pass --kubeconfig FILE, set KUBECONFIG, or run it in a pod with a service account"
        fail([Problem("kubernetes.kubeconfig", str(error), fix)], UNUSABLE)
    state.mkdir(parents=True, exist_ok=True)
    open_log(state / "agent.log", level=log_level, to_stderr=True)
    listener, health = listening_socket(server_flags.address_of(health_listen, DEFAULT_HEALTH), "--health-listen")
    options = NodeAgentOptions(
        server=server,
        namespace=namespace,
        node=node,
        renew_s=renew_every,
        fence_after_s=fence_after,
        state=state,
        samples=_target(samples_to, samples_token_file),
        cgroups=cgroups,
        owner=(pod_name, pod_uid),
    )
    click.echo(f"Node     {node}")
    click.echo(f"Health   {health.url}/readyz")
    NodeAgent(options, listener).run(lambda: click.echo("Ready."))


def _target(samples_to: str, token_file: Path) -> SampleTarget | None:
    from fairpool.platform.node_sampling import SampleTarget

    if not samples_to:
        return None
    return SampleTarget(address=server_flags.address_of(samples_to, DEFAULT_SAMPLES), token_file=token_file)
