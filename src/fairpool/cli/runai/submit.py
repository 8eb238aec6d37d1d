"""`runai submit`: its flags, in sections, and what is said when it was done. The rest is in `submission`."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from fairpool.cli.runai.command_tree import Here, Leaf, flag
from fairpool.cli.runai.failure import Failure, failure
from fairpool.cli.screen import printable

if TYPE_CHECKING:
    from fairpool.api.client import Client
    from fairpool.api.workloads import SubmitAny, Workload

NAMING, CONTAINER, RESOURCES, STORAGE, NETWORK, LIFE = (
    "What",
    "Container",
    "Resources",
    "Storage",
    "Network",
    "Life cycle, scheduling, access",
)
NO_INGRESS = (
    "Note: there is no ingress yet. The job uses the ports of the machine it runs on; while it runs, "
    "`runai list -o wide` shows its address under SERVICE URL(S)."
)
OLDER_FORM = "--command with a value and --args are an older form; write: runai submit NAME ... --command -- {words}"


class Submit(Leaf):
    """What stands after a bare `--` is what runs; before one, `--command` takes a value, as it did once."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["argv"] = list(args)
        if "--" in args:
            split = args.index("--")
            ctx.meta["words"] = args[split + 1 :]
            args = ["--command-replaced" if each == "--command" else each for each in args[:split]]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ARGS...]"]


def _policies(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [each for each in ("Always", "IfNotPresent", "Never") if each.startswith(incomplete)]


def _service_types(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [each for each in ("ingress", "external-url", "nodeport", "loadbalancer") if each.startswith(incomplete)]


@click.command(
    "submit",
    cls=Submit,
    short_help="Submit a job.",
    example="runai submit hyper1 -i quickstart -g 1 -p team-a",
)
@click.argument("name", required=False)
@flag("--name", "named", section=NAMING, metavar="NAME", help="The same as NAME before it.")
@flag("--name-prefix", "--job-name-prefix", section=NAMING, metavar="TEXT", help="Make a name: TEXT-0, TEXT-1, ...")
@flag("--interactive", is_flag=True, section=NAMING, help="Build work: a person sits before it.")
@flag("--inference", is_flag=True, section=NAMING, help="A model that answers on --port.")
@flag("--replicas", type=click.IntRange(1), hidden=True, help="Of inference.")
@flag("--jupyter", is_flag=True, hidden=True)
@flag("--template", section=NAMING, metavar="NAME", help="Take values from a template.")
@flag("--dry-run", is_flag=True, section=NAMING, help="Print what would be sent; submit nothing.")
@flag("--old-job", is_flag=True, hidden=True, expose_value=False)
@flag("-i", "--image", section=CONTAINER, help="Image to run: [HOST[:PORT]/]PATH[:TAG].")
@flag(
    "--image-pull-policy",
    section=CONTAINER,
    metavar="POLICY",
    shell_complete=_policies,
    help="Always, IfNotPresent or Never.",
)
@flag("--always-pull-image", is_flag=True, hidden=True)
@flag("--local-image", is_flag=True, section=CONTAINER, help="Take the image from the node (Never).")
@flag("--command", section=CONTAINER, metavar="WORD", help="Replace what the image starts by the words after --.")
@flag("--command-replaced", is_flag=True, hidden=True)
@flag("--args", multiple=True, section=CONTAINER, metavar="WORD", help="Older form of words after --; repeatable.")
@flag("-e", "--environment", multiple=True, section=CONTAINER, metavar="KEY=VALUE", help="Variable; repeatable.")
@flag("--attach", is_flag=True, section=CONTAINER, help="Wait until it runs, then attach to it.")
@flag("--stdin", is_flag=True, section=CONTAINER, help="Keep its input open.")
@flag("-t", "--tty", is_flag=True, section=CONTAINER, help="Give it a terminal; needs --stdin.")
@flag("--working-dir", section=CONTAINER, metavar="PATH", help="Where it starts.")
@flag("--python-env", section=CONTAINER, metavar="PATH", help="Virtual environment of the node to use, read-only.")
@flag("-l", "--label", multiple=True, section=CONTAINER, metavar="KEY=VALUE", help="Label; repeatable.")
@flag("-a", "--annotation", multiple=True, section=CONTAINER, metavar="KEY=VALUE", help="Annotation; repeatable.")
@flag("--add-capability", multiple=True, section=CONTAINER, metavar="NAME", help="Linux capability; repeatable.")
@flag("-g", "--gpu", section=RESOURCES, metavar="GPUS", help="0.5 of one GPU, or 2 whole ones.")
@flag("--gpu-memory", section=RESOURCES, metavar="SIZE", help="A part of a GPU by its memory, as in 4G.")
@flag("--mig-profile", "--mig", section=RESOURCES, metavar="PROFILE", help="A MIG partition, as in 1g.5gb.")
@flag("--cpu", type=float, section=RESOURCES, metavar="CORES", help="Guaranteed CPU; else 1 a GPU.")
@flag("--cpu-limit", type=float, section=RESOURCES, metavar="CORES", help="Never more CPU than this.")
@flag("--memory", section=RESOURCES, metavar="SIZE", help="Guaranteed memory; else 100Mi a GPU.")
@flag("--memory-limit", section=RESOURCES, metavar="SIZE", help="Never more memory than this.")
@flag("--large-shm", is_flag=True, section=RESOURCES, help="A large /dev/shm.")
@flag("--large-shdm", is_flag=True, hidden=True)  # as a document prints it
@flag("--extended-resource", multiple=True, section=RESOURCES, metavar="NAME=COUNT", help="Others; repeatable.")
@flag("--mps", is_flag=True, hidden=True)
@flag(
    "-v",
    "--volume",
    multiple=True,
    section=STORAGE,
    metavar="HOST:PATH[:ro]",
    help="Folder of the node at PATH; repeatable.",
)
@flag("--nfs-server", section=STORAGE, metavar="HOST", help="-v means folders of this file server.")
@flag("--mount-propagation", is_flag=True, section=STORAGE, help="-v shows what is mounted on the node later.")
@flag("--pvc", multiple=True, section=STORAGE, metavar="NAME:PATH[:ro]", help="Existing claim; repeatable.")
@flag("--pvc-exists", multiple=True, section=STORAGE, metavar="KEYS", help="claimname=NAME,path=PATH.")
@flag("--new-pvc", "--pvc-new", multiple=True, section=STORAGE, metavar="KEYS", help="size=10G,path=PATH,...")
@flag("--git-sync", multiple=True, section=STORAGE, metavar="KEYS", help="source=REPOSITORY,branch=NAME,target=PATH.")
@flag("--s3", multiple=True, hidden=True)
@flag("--configmap-volume", multiple=True, section=STORAGE, metavar="KEYS", help="name=NAME,path=PATH.")
@flag(
    "-s",
    "--service-type",
    multiple=True,
    section=NETWORK,
    metavar="TYPE",
    shell_complete=_service_types,
    help="ingress, external-url, nodeport or loadbalancer, with --port.",
)
@flag("--port", multiple=True, section=NETWORK, metavar="PORT", help="8888, or EXTERNAL:CONTAINER; repeatable.")
@flag("--custom-url", section=NETWORK, metavar="URL", help="With external-url.")
@flag("--address", hidden=True)
@flag("--host-ipc", is_flag=True, section=NETWORK, help="The node's own inter-process communication.")
@flag("--host-network", is_flag=True, section=NETWORK, help="The node's own network.")
@flag("--backoff-limit", "--backoffLimit", type=click.IntRange(0), section=LIFE, help="Retries: 6; interactive 0.")
@flag("--completions", type=click.IntRange(1), section=LIFE, help="Runs that must end well.")
@flag("--parallelism", type=click.IntRange(1), section=LIFE, help="Runs at a time; needs --completions.")
@flag("--preemptible", is_flag=True, section=LIFE, help="Interactive work may exceed the quota, and be taken away.")
@flag("--priority", section=LIFE, metavar="CLASS", help="train, interactive-preemptible, build or inference.")
@flag(
    "--ttl-after-finish",
    "--auto-deletion-time-after-completion",
    section=LIFE,
    metavar="TIME",
    help="Delete it so long after it finished, as in 2h.",
)
@flag("--grace-period", type=click.IntRange(0), section=LIFE, metavar="SECONDS", help="From the notice to its end.")
@flag("--elastic", is_flag=True, hidden=True)
@flag("--node-type", section=LIFE, metavar="TYPE", help="Nodes with this run.ai/type.")
@flag("--node-pools", multiple=True, section=LIFE, metavar="NAMES", help="Pools to try, in this order.")
@flag("--toleration", multiple=True, section=LIFE, metavar="KEYS", help="operator=Exists,key=KEY,effect=NoSchedule.")
@flag("--preferred-pod-topology-key", section=LIFE, metavar="KEY", help="Keep pods together by a label if possible.")
@flag("--required-pod-topology-key", section=LIFE, metavar="KEY", help="Keep pods together by a label.")
@flag("--run-as-user", is_flag=True, section=LIFE, help="As you, not as root.")
@flag("--create-home-dir/--no-create-home-dir", default=None, section=LIFE, help="A home of its own.")
@flag("--prevent-privilege-escalation", is_flag=True, hidden=True)
@flag("--allow-privilege-escalation/--no-allow-privilege-escalation", default=None, hidden=True)
@flag("--seccomp-profile", hidden=True)
@flag("-u", "--user", hidden=True)
@click.pass_context
def submit(ctx: click.Context, /, **asked: Any) -> None:
    """Submit a job. What stands after -- goes to the container: as arguments of what the image starts, or, with
    --command, instead of it."""
    perform(ctx, asked)


def perform(ctx: click.Context, asked: dict[str, Any]) -> None:
    """Submit what was asked for, or say all that is wrong with it."""
    from fairpool.cli.runai import submission
    from fairpool.cli.runai.session import Session

    here: Here = ctx.obj
    _settle_command(ctx, here, asked)
    asked["large_shm"] = asked.pop("large_shdm") or asked["large_shm"]
    wrong = submission.problems(asked)
    if wrong:
        raise Failure(wrong)
    session = Session(here)
    project = session.project()
    line = shlex.join([*ctx.command_path.split(), *ctx.meta["argv"]])
    cluster = session.configuration.default("cluster", session.server)
    body = submission.document(asked, project=project, cluster=cluster, command_line=line)
    request = submission.request(body, submission.kind_of(asked))
    if isinstance(request, list):
        raise Failure(request)
    if asked["dry_run"]:
        _print_only(request)
        return
    if asked["preemptible"]:
        here.warn("Warning: Using the preemptible flag may lead to your resources being preempted without notice")
    with session.connected() as client:
        made = _submitted(client, request)
        _say(made)
        if asked["service_type"]:
            here.warn(NO_INGRESS)
        if asked["attach"]:
            from fairpool.cli.runai.visits import attach_to

            ctx.exit(attach_to(client, made.project_name, made.name))


def _settle_command(ctx: click.Context, here: Here, asked: dict[str, Any]) -> None:
    """One answer to what runs, from the older and the newer form."""
    words: list[str] | None = ctx.meta.get("words")
    older = [*([asked["command"]] if asked["command"] is not None else []), *asked["args"]]
    replaced = asked.pop("command_replaced")
    if words is None:
        if older:
            here.notice(OLDER_FORM.format(words=shlex.join(older)))
        asked["command"] = _words(asked["command"])
        return
    if older:
        what = f"what runs is given twice, as {shlex.join(older)} and after --"
        raise failure("flag.command_twice", what, "write all of it after --")
    asked["command"] = words if replaced else []
    asked["args"] = [] if replaced else words


def _words(text: str | None) -> list[str]:
    """`--command "python train.py"` was once one word to the shell and two to the container."""
    try:
        return shlex.split(text) if text is not None else []
    except ValueError as error:
        raise failure("flag.command", f"--command {text!r} has an open quote", "close it") from error


def _submitted(client: Client, request: SubmitAny) -> Workload:
    """Once, however often it has to be said: an answer that is lost on the way is asked for again under one key."""
    import uuid

    from fairpool.api.client import Unreachable

    key = str(uuid.uuid4())
    try:
        return client.submit(request, key)
    except Unreachable as error:
        import httpx2

        if isinstance(error.__cause__, httpx2.ConnectError):
            raise
        return client.submit(request, key)


def _say(made: Workload) -> None:
    name, project = printable(made.name), printable(made.project_name)
    click.echo(f"Job {name} submitted successfully.")
    click.echo("You can check the status of the job by running:")
    click.echo(f"        runai describe job {name} -p {project}")


def _print_only(request: SubmitAny) -> None:
    from fairpool.cli.runai.listing import yaml_text

    kind = type(request).__name__.removeprefix("Submit")
    document = {"kind": kind, **request.model_dump(mode="json", by_alias=True, exclude_unset=True)}
    click.echo(yaml_text(document), nl=False, file=sys.stdout)
