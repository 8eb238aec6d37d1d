"""Flags of `runai submit`, in sections. `submission` makes the request of them, and `sending` sends it."""

from __future__ import annotations

import shlex
from typing import Any

import click

from fairpool.cli.failure import failure
from fairpool.cli.runai.flags import OTHER_DASHES, Command, GlobalOptions, asset_names, command, flag, template_names

NAMING, CONTAINER, RESOURCES, STORAGE, NETWORK, LIFE, ARRAYS, PRIVILEGES, LATER = (
    "What",
    "Container",
    "Resources",
    "Storage",
    "Network",
    "Life cycle, scheduling, access",
    "Arrays",
    "Where nodes run containers",
    "Not supported yet (refused)",
)
OLDER_FORM = "--command with a value and --args are deprecated; use: runai submit NAME ... --command -- {words}"


class SubmitCommand(Command):
    """The words after a bare `--` are the command; without `--`, `--command` takes a value, as in older releases."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["argv"] = list(args)
        if "--" in args:
            split = args.index("--")
            ctx.meta["words"] = args[split + 1 :]
            args = ["--command-replaced" if each == "--command" else each for each in args[:split]]
            return super().parse_args(ctx, args)
        typed = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            begins = _where_the_command_begins(self, ctx, typed)
            if begins is None or typed[begins][:1] in OTHER_DASHES:
                raise
            corrected = shlex.join([*ctx.command_path.split(), *typed[:begins], "--", *typed[begins:]])
            raise click.UsageError(f"the command to run comes after --: {corrected}", ctx) from error

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ARGS...]"]


def _where_the_command_begins(command: click.Command, ctx: click.Context, args: list[str]) -> int | None:
    """Where the command begins if `--` was forgotten: at the first word after the name."""
    options = {name: each for each in command.get_params(ctx) if isinstance(each, click.Option) for name in each.opts}
    has_name = any(arg == "--name" or arg.startswith("--name=") for arg in args)
    place = 0
    while place < len(args):
        arg = args[place]
        if not arg.startswith("-") or arg == "-":
            if has_name:
                return place
            has_name = True
        elif "=" not in arg and (arg in options or arg[:2] in options):
            option = options.get(arg) or options[arg[:2]]
            takes_value = not option.is_flag and not option.count
            place += takes_value and (arg in options or len(arg) == 2)
        elif arg.partition("=")[0] not in options:
            return None  # an unknown flag, and not of a command
        place += 1
    return None


def _policies(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [each for each in ("Always", "IfNotPresent", "Never") if each.startswith(incomplete)]


def _service_types(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [
        each
        for each in ("ingress", "external-url", "nodeport", "loadbalancer", "portforward")
        if each.startswith(incomplete)
    ]


@command("submit", "runai submit train -i python -g 0.5 --workdir . -- python train.py", cls=SubmitCommand)
@click.argument("name", required=False)
@flag("-f", "--file", metavar="FILE", section=NAMING, help="Submit the jobs in a YAML or JSON file; - reads stdin.")
@flag("--name", "named", section=NAMING, metavar="NAME", help="Name of the job; the same as NAME.")
@flag("--name-prefix", "--job-name-prefix", section=NAMING, metavar="TEXT", help="Generate a name: TEXT-0, TEXT-1, ...")
@flag("--interactive", is_flag=True, section=NAMING, help="Run an interactive job, such as a notebook or a shell.")
@flag("--inference", is_flag=True, section=NAMING, help="Run a model server that listens on --port.")
@flag("--replicas", type=click.IntRange(1), hidden=True, help="Run this many replicas of the model.")
@flag("--jupyter", is_flag=True, section=NAMING, help="Start a notebook; its port is forwarded here.")
@flag("--dry-run", is_flag=True, section=NAMING, help="Check the job and print it as a job file; submit nothing.")
@flag(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "name"]),
    section=NAMING,
    help="Print the job as yaml, json or its name only.",
)
@flag("--old-job", is_flag=True, hidden=True, expose_value=False)
@flag("-i", "--image", section=CONTAINER, help="Use this image: [HOST[:PORT]/]PATH[:TAG].")
@flag(
    "--image-pull-policy",
    section=CONTAINER,
    metavar="POLICY",
    shell_complete=_policies,
    help="IfNotPresent or Never; Always is not supported by the process runtime.",
)
@flag("--always-pull-image", is_flag=True, hidden=True)
@flag("--local-image", is_flag=True, section=CONTAINER, help="Use the image on the node; never pull it.")
@flag("--command", section=CONTAINER, metavar="WORD", help="Replace the image's entrypoint with the words after --.")
@flag("--command-replaced", is_flag=True, hidden=True)
@flag(
    "--args", multiple=True, section=CONTAINER, metavar="WORD", help="Deprecated: use the words after --; repeatable."
)
@flag(
    "-e",
    "--environment",
    multiple=True,
    section=CONTAINER,
    metavar="KEY=VALUE",
    help="Set an environment variable; KEY=SECRET:NAME,KEY takes it from a credential; repeatable.",
)
@flag("--attach", is_flag=True, section=CONTAINER, help="Wait until the job runs, then attach to it.")
@flag("--stdin", is_flag=True, section=CONTAINER, help="Keep standard input open.")
@flag("-t", "--tty", is_flag=True, section=CONTAINER, help="Allocate a terminal; needs --stdin.")
@flag("--working-dir", section=CONTAINER, metavar="PATH", help="Working directory in the pod.")
@flag(
    "--python-env",
    section=CONTAINER,
    metavar="PATH",
    help="Use this Python virtual environment on the node, read-only.",
)
@flag("-l", "--label", multiple=True, section=CONTAINER, metavar="KEY=VALUE", help="Add a label; repeatable.")
@flag(
    "-a", "--annotation", multiple=True, section=CONTAINER, metavar="KEY=VALUE", help="Add an annotation; repeatable."
)
@flag(
    "-g",
    "--gpu",
    section=RESOURCES,
    metavar="GPUS",
    help="Request part of a GPU, such as 0.5, or whole GPUs, such as 2.",
)
@flag("--gpu-memory", section=RESOURCES, metavar="SIZE", help="Request part of a GPU by its memory, such as 4G.")
@flag("--mig-profile", "--mig", section=RESOURCES, metavar="PROFILE", help="Request a MIG partition, such as 1g.5gb.")
@flag("--cpu", type=float, section=RESOURCES, metavar="CORES", help="Guaranteed CPU cores (1 per GPU).")
@flag("--cpu-limit", type=float, section=RESOURCES, metavar="CORES", help="Maximum number of CPU cores.")
@flag("--memory", section=RESOURCES, metavar="SIZE", help="Guaranteed memory (100Mi per GPU).")
@flag("--memory-limit", section=RESOURCES, metavar="SIZE", help="Maximum memory.")
@flag("--large-shm", is_flag=True, section=RESOURCES, help="Mount a large /dev/shm.")
@flag("--large-shdm", is_flag=True, hidden=True)  # as a document prints it
@flag(
    "--extended-resource",
    multiple=True,
    section=RESOURCES,
    metavar="NAME=COUNT",
    help="Request an extended resource; repeatable.",
)
@flag("--mps", is_flag=True, hidden=True)
@flag(
    "--workdir",
    section=STORAGE,
    metavar="FOLDER[:PATH]",
    help="Upload a folder to /workdir or PATH, and start in it.",
)
@flag("--exclude", multiple=True, section=STORAGE, metavar="PATTERN", help="Leave files out of --workdir; repeatable.")
@flag(
    "-v",
    "--volume",
    multiple=True,
    section=STORAGE,
    metavar="HOST:PATH[:ro]",
    help="Mount a folder on the node at PATH; repeatable.",
)
@flag("--pvc", multiple=True, section=STORAGE, metavar="NAME:PATH[:ro]", help="Mount an existing claim; repeatable.")
@flag("--pvc-exists", multiple=True, section=STORAGE, metavar="KEYS", help="Mount a claim: claimname=NAME,path=PATH.")
@flag(
    "--new-pvc",
    "--pvc-new",
    multiple=True,
    section=STORAGE,
    metavar="KEYS",
    help="Create a claim and mount it: size=10G,path=PATH; repeatable.",
)
@flag(
    "--git-sync",
    multiple=True,
    section=STORAGE,
    metavar="KEYS",
    help="Clone a repository: source=URL,branch=NAME,target=PATH; repeatable.",
)
@flag(
    "--configmap-volume",
    multiple=True,
    section=STORAGE,
    metavar="KEYS",
    help="Mount a config map: name=NAME,path=PATH; repeatable.",
)
@flag("--s3", multiple=True, hidden=True)
@flag(
    "-s",
    "--service-type",
    multiple=True,
    section=NETWORK,
    metavar="TYPE",
    shell_complete=_service_types,
    help="How to expose --port: ingress, external-url, nodeport, loadbalancer or portforward.",
)
@flag("--port", multiple=True, section=NETWORK, metavar="PORT", help="Expose 8888, or EXTERNAL:CONTAINER; repeatable.")
@flag("--custom-url", section=LATER, metavar="URL", help="Use this address with external-url.")
@flag("--address", section=NETWORK, metavar="ADDRESS", help="Local addresses for portforward (default: localhost).")
@flag(
    "--backoff-limit",
    "--backoffLimit",
    type=click.IntRange(0),
    section=LIFE,
    help="Number of retries of a failed job (6; interactive 0).",
)
@flag("--time-limit", section=LIFE, metavar="TIME", help="Stop the job this long after its first start, such as 2h.")
@flag(
    "--after",
    multiple=True,
    section=LIFE,
    metavar="JOB[:any]",
    help="Start after JOB has succeeded; with :any, after it has ended in any way; repeatable.",
)
@flag("--completions", type=click.IntRange(1), section=LIFE, help="Run the job until this many runs have succeeded.")
@flag("--parallelism", type=click.IntRange(1), section=LIFE, help="Run this many runs at a time.")
@flag("--preemptible", is_flag=True, section=LIFE, help="Let an interactive job exceed the quota and be preempted.")
@flag("--wait-anyway", is_flag=True, section=LIFE, help="Queue the job even if it cannot start in the current cluster.")
@flag("--priority", section=LIFE, metavar="CLASS", help="Use train, interactive-preemptible, build or inference.")
@flag(
    "--ttl-after-finish",
    "--auto-deletion-time-after-completion",
    section=LIFE,
    metavar="TIME",
    help="Delete the job this long after it has finished, such as 2h.",
)
@flag(
    "--grace-period",
    type=click.IntRange(0),
    section=LIFE,
    metavar="SECONDS",
    help="Wait this long between SIGTERM and SIGKILL.",
)
@flag(
    "--elastic",
    is_flag=True,
    section=LIFE,
    help="Start with one pod and grow to --parallelism pods while GPUs are free.",
)
@flag("--node-type", section=LIFE, metavar="TYPE", help="Use nodes with this run.ai/type.")
@flag("--node-pools", multiple=True, section=LIFE, metavar="NAMES", help="Try these node pools in this order.")
@flag(
    "--toleration",
    multiple=True,
    section=LIFE,
    metavar="KEYS",
    help="Tolerate a taint: operator=Exists,key=KEY,effect=NoSchedule.",
)
@flag(
    "--prefer-node",
    multiple=True,
    section=LIFE,
    metavar="KEY=VALUE",
    help="Prefer nodes with this label; repeatable.",
)
@flag(
    "--preferred-pod-topology-key",
    section=LIFE,
    metavar="KEY",
    help="Keep the pods of a distributed job on nodes with one value of this label, where possible.",
)
@flag("--required-pod-topology-key", section=LIFE, metavar="KEY", help="The same, required.")
@flag("--topology", section=LIFE, metavar="NAME", help="The network topology of these labels.")
@flag(
    "--template",
    section=NAMING,
    metavar="NAME",
    shell_complete=template_names,
    help="Take what no flag says from this template; see `runai list templates`.",
)
@flag(
    "--environment-asset",
    section=NAMING,
    metavar="NAME",
    shell_complete=asset_names("environment"),
    help="Take image, command and variables that no flag says from this environment; see `runai list environments`.",
)
@flag(
    "--compute-resource",
    section=RESOURCES,
    metavar="NAME",
    shell_complete=asset_names("compute"),
    help="Take resources that no flag says from here; see `runai list compute-resources`.",
)
@flag(
    "--data-source",
    "--datasource",
    multiple=True,
    section=STORAGE,
    metavar="NAME[:PATH]",
    shell_complete=asset_names("datasource"),
    help="Mount a data source, see `runai list data-sources`; repeatable.",
)
@flag("--array", section=ARRAYS, metavar="0-9[%N]", help="Run once per index, N at a time; {index} is replaced.")
@flag(
    "--for",
    "array_for",
    multiple=True,
    section=ARRAYS,
    metavar="NAME=A,B",
    help="Run once per value; {NAME} is replaced; repeatable.",
)
@flag("--array-args", section=ARRAYS, metavar="FILE", help="Run once per line of FILE, with its words as arguments.")
@flag("--add-capability", multiple=True, section=PRIVILEGES, metavar="NAME", help="Add a Linux capability; repeatable.")
@flag("--nfs-server", section=LATER, metavar="HOST", help="Mount the -v folders from this NFS server.")
@flag("--mount-propagation", is_flag=True, section=LATER, help="Propagate later mounts on the node to -v.")
@flag(
    "--secret-volume",
    multiple=True,
    section=STORAGE,
    metavar="KEYS",
    help="Mount the keys of a credential as files, in memory: name=NAME,path=PATH; repeatable.",
)
@flag("--host-ipc", is_flag=True, section=PRIVILEGES, help="Use the node's IPC namespace.")
@flag("--host-network", is_flag=True, section=PRIVILEGES, help="Use the node's network.")
@flag(
    "--run-as-user",
    is_flag=True,
    section=PRIVILEGES,
    help="Run as your user: that of your directory, else of this machine.",
)
@flag(
    "--create-home-dir/--no-create-home-dir",
    default=None,
    section=PRIVILEGES,
    help="Create a home directory, as every pod has; --no-create-home-dir is refused.",
)
@flag("--prevent-privilege-escalation", is_flag=True, hidden=True)
@flag("--allow-privilege-escalation/--no-allow-privilege-escalation", default=None, hidden=True)
@flag("--seccomp-profile", hidden=True)
@flag("-u", "--user", hidden=True)
@click.pass_context
def submit(ctx: click.Context, /, **asked: Any) -> None:
    """Submit a job. The words after -- are the arguments of the image's entrypoint; with --command they replace it."""
    perform(ctx, asked)


def perform(ctx: click.Context, asked: dict[str, Any]) -> None:
    """Submit, or report everything that is wrong."""
    from fairpool.cli.runai.sending import send  # not for help

    options: GlobalOptions = ctx.obj
    settle_command(ctx, options, asked)
    asked["large_shm"] = asked.pop("large_shdm") or asked["large_shm"]
    ctx.exit(send(options, asked, shlex.join([*ctx.command_path.split(), *ctx.meta["argv"]])))


def settle_command(ctx: click.Context, options: GlobalOptions, asked: dict[str, Any]) -> None:
    """Command and arguments, from the older or the newer form."""
    words: list[str] | None = ctx.meta.get("words")
    older = [*([asked["command"]] if asked["command"] is not None else []), *asked["args"]]
    replaced = asked.pop("command_replaced")
    if words is None:
        if older:
            options.notice(OLDER_FORM.format(words=shlex.join(older)))
        asked["command"] = _words(asked["command"])
        return
    if older:
        what = f"the command is given twice, as {shlex.join(older)} and after --"
        raise failure("flag.command_twice", what, "write all of it after --")
    asked["command"] = words if replaced else []
    asked["args"] = [] if replaced else words


def _words(text: str | None) -> list[str]:
    """`--command "python train.py"` is split as in a shell, as older releases did."""
    try:
        return shlex.split(text) if text is not None else []
    except ValueError as error:
        raise failure("flag.command", f"--command {text!r} has an unclosed quote", "close it") from error
