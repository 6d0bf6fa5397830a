"""The command `distui`: its verbs, each imported only when used, and its help.

Cold start counts: `distui --help` and `distui ps --help` import click and nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from distui.cli.options import add_globals, global_options, refuse_output
from distui.frozen import frozen
from distui.version import __version__

EXIT_CODES = """\
\b
Exit codes:
    0  ok; the run succeeded         6  contact lost, may still be running
    1  the run ended, a rank failed  7  no such run or host
    2  usage or config error        70  a bug in distui, crash file named
    3  a check failed              124  a time limit was reached
    4  host unreachable, no login  130  stopped by Ctrl-C
    5  launch failed, rolled back  143  stopped by SIGTERM
"""


@frozen
class Entry:
    """Where a verb lives and what the overview says about it."""

    section: str
    module: str
    help: str
    attribute: str = "command"


_SECTIONS = ("Look at hosts", "Run jobs", "Follow and end runs", "Files and help")

VERBS: dict[str, Entry] = {
    "tui": Entry(_SECTIONS[0], "tui", "Open the terminal UI; so does `distui` alone on a terminal."),
    "serve": Entry(_SECTIONS[0], "serve", "Show the terminal UI in a browser of this machine."),
    "probe": Entry(_SECTIONS[0], "probe", "Ask hosts for their GPUs, networks, engine, clock and disk."),
    "top": Entry(_SECTIONS[0], "top", "Show what GPUs and networks do now, live or once."),
    "ssh": Entry(_SECTIONS[0], "ssh", "Open a shell on a host, or run a command there."),
    "hosts": Entry(_SECTIONS[0], "hosts", "List, show, check, add, remove and import hosts."),
    "image": Entry(_SECTIONS[0], "image", "Show which hosts have an image; copy it to the others."),
    "doctor": Entry(_SECTIONS[0], "doctor", "Check what would break on which host."),
    "plan": Entry(_SECTIONS[1], "plan", "Show what a run would start, without starting it."),
    "run": Entry(_SECTIONS[1], "run", "Start a job on hosts and follow it to its end."),
    "demo": Entry(_SECTIONS[1], "demo", "Train a small network on two hosts made on this machine."),
    "ps": Entry(_SECTIONS[2], "ps", "List runs, as the hosts remember them."),
    "show": Entry(_SECTIONS[2], "show", "Show one run: ranks, states, exit codes, first failure."),
    "logs": Entry(_SECTIONS[2], "logs", "Print the logs of a run, of all its ranks or some."),
    "exec": Entry(_SECTIONS[2], "exec", "Run a command, or a shell, in the container of a rank."),
    "attach": Entry(_SECTIONS[2], "attach", "Follow a run that was started elsewhere, or detached."),
    "why": Entry(_SECTIONS[2], "why", "Say which rank holds the others up, and where in the code."),
    "metrics": Entry(_SECTIONS[2], "metrics", "Show what a run measured: step time, loss, GPUs, network."),
    "wait": Entry(_SECTIONS[2], "wait", "Wait for a run to end and exit as it did."),
    "stop": Entry(_SECTIONS[2], "stop", "Stop a run: SIGTERM, and after a grace period SIGKILL."),
    "kill": Entry(_SECTIONS[2], "stop", "Kill a run at once.", "kill"),
    "rm": Entry(_SECTIONS[2], "rm", "Remove what an ended run left on hosts, or its files here."),
    "job": Entry(_SECTIONS[3], "job", "Check, list, show and create job files."),
    "schema": Entry(_SECTIONS[3], "schema", "Print the JSON Schema of hosts.yaml or of job files."),
    "config": Entry(_SECTIONS[3], "config", "Show settings, where they come from, and distui's folders."),
    "completion": Entry(_SECTIONS[3], "completion", "Print the completion script for bash, zsh or fish."),
    "help": Entry(_SECTIONS[3], "help", "Print the help of a command; so does `COMMAND --help`."),
    "version": Entry(_SECTIONS[3], "version", "Print the version."),
}


class Verbs(click.Group):
    """A group of verbs that suggests the nearest one for a word it does not know."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See click. An unknown verb ends with exit 2."""
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            from distui.cli.other_words import suggest

            group = "" if ctx.parent is None else str(ctx.info_name)
            noun = f"`{group}` command" if group else "command"
            raise click.UsageError(f"there is no {noun} '{word}'{suggest(word, self.list_commands(ctx), group)}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs of a group; global options are reported once, by `distui --help`."""
        self.format_commands(ctx, formatter)


class Root(Verbs):
    """`distui` itself."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of the overview."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, imported now."""
        entry = VERBS.get(cmd_name)
        if entry is None:
            return None
        found: Any = getattr(importlib.import_module(f"distui.cli.verbs.{entry.module}"), entry.attribute)
        return found if isinstance(found, click.Command) else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Verbs by section, then the global options."""
        for section in _SECTIONS:
            rows = [(name, entry.help) for name, entry in VERBS.items() if entry.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)
        records = [record for option in global_options() if (record := option.get_help_record(ctx))]
        with formatter.section("Global options, before or after the command"):
            formatter.write_dl([*records, ("-V, --version", "Print the version."), ("-h, --help", "Print help.")])


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"distui {__version__}")
        ctx.exit(0)


@click.pass_context
def _bare(ctx: click.Context) -> int:
    """Cluster manager over ssh for distributed training.

    One file names the hosts, one names the job: distui asks the hosts what they have, plans every rank, starts
    them in containers, shows every rank's log, says which one failed first and why, and leaves nothing behind.

    \b
      distui                               open the terminal UI
      distui demo                          two hosts on this machine, no Docker
      distui probe -H 'node[01-04]'        show what the hosts have
      distui run job.yaml --headless -y    run a job; logs on stdout
    """
    if ctx.invoked_subcommand is not None:
        return 0
    refuse_output(ctx)
    from distui.cli import console as consoles
    from distui.cli.runs import opening
    from distui.cli.settings import settings_of

    settings = settings_of(ctx)
    known = bool(settings.hosts or settings.hostfile or settings.selection.path)
    if known and opening.wanted(settings):
        return opening.open_views(settings, consoles.of(settings))
    if not known:
        first_start = importlib.import_module("distui.cli.actions.first_start")
        if opening.wanted(settings):
            return int(first_start.begin(settings, consoles.of(settings)))
        return int(first_start.off_a_terminal(consoles.of(settings)))
    click.echo(ctx.get_help())
    return 0 if opening.on_terminal() else 2


def build() -> click.Group:
    """The whole command line."""
    version = click.Option(
        ["-V", "--version"], is_flag=True, is_eager=True, expose_value=False, callback=_print_version, hidden=True
    )
    root = Root(
        name="distui",
        callback=_bare,
        help=_bare.__doc__,
        epilog=EXIT_CODES,
        invoke_without_command=True,
        params=[version],
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    return add_globals(root)
