"""`fairpool`: the command with its subcommands, each imported only when it is called."""

from __future__ import annotations

from collections.abc import Sequence

import click

from fairpool import __version__
from fairpool.cli.failure import UNUSABLE, unexpected
from fairpool.cli.lazy_group import lazy
from fairpool.cli.root_command import RootCommand

MEMBERS = {
    "up": lazy("Start the platform on this machine.", "fairpool.cli.up:up"),
    "control": lazy("Start a control plane, for clusters elsewhere.", "fairpool.cli.control:control"),
    "cluster": lazy("Start a cluster on this machine, and join a control plane.", "fairpool.cli.cluster:cluster"),
    "down": lazy("Stop the server; running pods are not affected.", "fairpool.cli.operation:down"),
    "status": lazy("Show whether the platform is up, and its health.", "fairpool.cli.operation:status"),
    "logs": lazy("Show the server log.", "fairpool.cli.operation:logs"),
    "reset-password": lazy("Set a new password for a user.", "fairpool.cli.operation:reset_password"),
    "backup": lazy("Back up projects, workloads, users and settings to a file.", "fairpool.cli.operation:backup"),
    "restore": lazy("Restore a backup.", "fairpool.cli.operation:restore"),
    "database": lazy("Migrate, check, compare or copy a control database.", "fairpool.cli.database:database"),
    "node-agent": lazy("Run on a node of a Kubernetes cluster.", "fairpool.cli.node_agent:node_agent"),
    "kubernetes-cleanup": lazy(
        "Remove finalizers from pods before uninstalling.", "fairpool.cli.kubernetes_cleanup:kubernetes_cleanup"
    ),
    "gpu": lazy("Run programs in a share of a GPU; no server is needed.", "fairpool.cli.gpu:gpu"),
    "plan": lazy("Plan a saved snapshot: what starts, is preempted or waits, and why.", "fairpool.cli.plan:plan"),
    "simulate": lazy("Simulate a cluster: a scenario, a trace or an example.", "fairpool.cli.simulate:simulate"),
    "snapshot": lazy("Create snapshot files to plan.", "fairpool.cli.snapshot:snapshot"),
}


class Fairpool(RootCommand):
    """The whole command."""

    def describe_bug(self, error: Exception, arguments: Sequence[str]) -> list[str]:
        """With its stack and its message, in which values from the wire are hidden."""
        return [*f"error: {unexpected(error, with_stack=True)}".splitlines(), f"  {str(error)[:500]}"]


main = Fairpool(
    "fairpool",
    help="Share GPUs fairly: quotas for teams, idle GPUs lent and reclaimed, and a reason for every job that waits.",
    example="fairpool up",
    members=MEMBERS,
    error_code=UNUSABLE,
)
click.version_option(__version__, prog_name="fairpool", message="%(prog)s %(version)s")(main)


if __name__ == "__main__":
    main(prog_name="fairpool")
