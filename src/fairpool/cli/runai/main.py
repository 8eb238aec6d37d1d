"""`runai`: the command with its subcommands, each imported only when it is called."""

from __future__ import annotations

import click

from fairpool.cli.runai.command_tree import Branch, Root, Twig


def _submit() -> click.Command:
    from fairpool.cli.runai.submit import submit

    return submit


def _submit_dist() -> click.Command:
    from fairpool.cli.runai.distributed import submit_dist

    return submit_dist()


def _list_jobs() -> click.Command:
    from fairpool.cli.runai.jobs import list_jobs

    return list_jobs


def _list_projects() -> click.Command:
    from fairpool.cli.runai.projects import list_projects

    return list_projects


def _list_nodes() -> click.Command:
    from fairpool.cli.runai.nodes import list_nodes

    return list_nodes


def _list_clusters() -> click.Command:
    from fairpool.cli.runai.nodes import list_clusters

    return list_clusters


def _list_claims() -> click.Command:
    from fairpool.cli.runai.claims import list_claims

    return list_claims


def _describe_job() -> click.Command:
    from fairpool.cli.runai.details import describe_job

    return describe_job


def _get() -> click.Command:
    from fairpool.cli.runai.details import get

    return get


def _describe_project() -> click.Command:
    from fairpool.cli.runai.projects import describe_project

    return describe_project


def _describe_node() -> click.Command:
    from fairpool.cli.runai.nodes import describe_node

    return describe_node


def _config_project() -> click.Command:
    from fairpool.cli.runai.projects import config_project

    return config_project


def _config_cluster() -> click.Command:
    from fairpool.cli.runai.nodes import config_cluster

    return config_cluster


def _logs() -> click.Command:
    from fairpool.cli.runai.logs import logs

    return logs


def _wait() -> click.Command:
    from fairpool.cli.runai.wait import wait

    return wait


def _cp() -> click.Command:
    from fairpool.cli.runai.copying import cp

    return cp


def _bash() -> click.Command:
    from fairpool.cli.runai.visits import bash

    return bash


def _exec() -> click.Command:
    from fairpool.cli.runai.visits import exec_command

    return exec_command


def _attach() -> click.Command:
    from fairpool.cli.runai.visits import attach

    return attach


def _suspend() -> click.Command:
    from fairpool.cli.runai.operations import suspend

    return suspend


def _resume() -> click.Command:
    from fairpool.cli.runai.operations import resume

    return resume


def _delete() -> click.Command:
    from fairpool.cli.runai.operations import delete

    return delete


def _why() -> click.Command:
    from fairpool.cli.runai.reasons import why

    return why


def _history() -> click.Command:
    from fairpool.cli.runai.reasons import history

    return history


def _top_overview() -> click.Command:
    from fairpool.cli.runai.top import top_overview

    return top_overview


def _top_job() -> click.Command:
    from fairpool.cli.runai.top import top_job

    return top_job


def _top_node() -> click.Command:
    from fairpool.cli.runai.top import top_node

    return top_node


def _login() -> click.Command:
    from fairpool.cli.runai.login import login

    return login


def _logout() -> click.Command:
    from fairpool.cli.runai.login import logout

    return logout


def _whoami() -> click.Command:
    from fairpool.cli.runai.login import whoami

    return whoami


def _password() -> click.Command:
    from fairpool.cli.runai.login import password

    return password


def _completion() -> click.Command:
    from fairpool.cli.runai.completion import completion_for

    return completion_for("runai")


def _version() -> click.Command:
    from fairpool.cli.runai.completion import version_of

    return version_of("runai")


def _unsupported(name: str) -> Twig:
    def load() -> click.Command:
        from fairpool.cli.runai.unsupported_commands import unsupported

        return unsupported("runai", name)

    return Twig("Not supported yet.", load, hidden=True)


def _list() -> click.Command:
    return Branch(
        "list",
        help="List jobs (the default), projects, nodes, clusters or volume claims.",
        example="runai list jobs -p team-a",
        twigs={
            "jobs": Twig("List jobs of one project or of all projects.", _list_jobs),
            "projects": Twig("List projects with their quotas.", _list_projects),
            "nodes": Twig("List nodes with their GPUs.", _list_nodes),
            "clusters": Twig("List clusters and the default project.", _list_clusters),
            "pvc": Twig("List the volume claims of a project.", _list_claims),
            "templates": _unsupported("templates"),
        },
        aliases={
            "job": "jobs",
            "project": "projects",
            "node": "nodes",
            "cluster": "clusters",
            "pvcs": "pvc",
            "template": "templates",
        },
        default="jobs",
    )


def _describe() -> click.Command:
    return Branch(
        "describe",
        help="Show a job, project or node in detail.",
        example="runai describe job hyper1 -p team-a",
        twigs={
            "job": Twig("Show a job with its pods, mounts and events.", _describe_job),
            "project": Twig("Show a project with its quota, usage and rules.", _describe_project),
            "node": Twig("Show a node with its GPUs and pods.", _describe_node),
            "template": _unsupported("template"),
        },
        aliases={"jobs": "job", "projects": "project", "nodes": "node", "templates": "template"},
        likely="job",
    )


def _config() -> click.Command:
    return Branch(
        "config",
        help="Set the default project or cluster.",
        example="runai config project team-a",
        twigs={
            "project": Twig("Set the default project.", _config_project),
            "cluster": Twig("Set the cluster for new projects.", _config_cluster),
        },
    )


def _project() -> click.Command:
    return Branch(
        "project",
        help="Old name of `runai config project` and `runai list projects`.",
        example="runai project set team-a",
        twigs={
            "set": Twig("Set the default project.", _config_project),
            "list": Twig("List projects with their quotas.", _list_projects),
        },
    )


def _cluster() -> click.Command:
    return Branch(
        "cluster",
        help="Old name of `runai config cluster` and `runai list clusters`.",
        example="runai cluster set local",
        twigs={
            "set": Twig("Set the cluster for new projects.", _config_cluster),
            "list": Twig("List clusters and the default project.", _list_clusters),
        },
    )


def _top() -> click.Command:
    return Branch(
        "top",
        help="Show current usage by node, project and job.",
        example="runai top --watch",
        twigs={
            "overview": Twig("Show nodes, projects and running jobs (the default).", _top_overview),
            "job": Twig("Show running jobs and their resources.", _top_job),
            "node": Twig("Show nodes and how much of each is allocated.", _top_node),
        },
        aliases={"jobs": "job", "nodes": "node"},
        default="overview",
    )


TWIGS = {
    "submit": Twig("Submit a job.", _submit),
    "submit-dist": Twig("Submit distributed training.", _submit_dist),
    "list": Twig("List jobs, projects, nodes, clusters or volume claims.", _list),
    "describe": Twig("Show a job, project or node in detail.", _describe),
    "logs": Twig("Show a job's output.", _logs),
    "wait": Twig("Wait until jobs finish, run or are deleted.", _wait),
    "cp": Twig("Copy files into or out of a running job.", _cp),
    "bash": Twig("Open a shell in a job.", _bash),
    "exec": Twig("Run a command in a job.", _exec),
    "attach": Twig("Attach to a job's main process.", _attach),
    "suspend": Twig("Stop jobs so that they can be resumed.", _suspend),
    "resume": Twig("Queue suspended jobs again.", _resume),
    "delete": Twig("Stop and delete jobs.", _delete),
    "why": Twig("Explain why a job is waiting, stopped or failed.", _why),
    "history": Twig("Show every try of a job's pods.", _history),
    "top": Twig("Show current GPU usage; --watch refreshes it.", _top),
    "config": Twig("Set the default project or cluster.", _config),
    "login": Twig("Sign in.", _login),
    "logout": Twig("Sign out.", _logout),
    "whoami": Twig("Show who is signed in.", _whoami),
    "password": Twig("Change your password.", _password),
    "completion": Twig("Print the completion script for bash, zsh or fish.", _completion),
    "version": Twig("Print the version.", _version),
    "get": Twig("Old name of describe job.", _get, hidden=True),
    "project": Twig("Old name of config project.", _project, hidden=True),
    "cluster": Twig("Old name of config cluster.", _cluster, hidden=True),
    **{name: _unsupported(name) for name in ("port-forward", "submit-mpi", "template", "update")},
}

main = Root(
    "runai",
    help="Submit and manage jobs on shared GPUs.",
    example="runai submit hello -i python -g 0.5 -- python -c 'print(1)'",
    twigs=TWIGS,
)


if __name__ == "__main__":
    main(prog_name="runai")
