"""Options that work before and after every verb, and the click classes verbs are made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from distui.cli.outputs import outputs_of
from distui.config import COLORS, OUTPUTS, paths, seconds
from distui.errors import UsageError
from distui.regex import regex
from distui.whole import whole

if TYPE_CHECKING:
    FloatParam = click.ParamType[float]
    RanksParam = click.ParamType[frozenset[int]]
    TextParam = click.ParamType[str]
    TextChoice = click.Choice[str]
else:  # click 8.1 has no type parameter here
    FloatParam = RanksParam = TextParam = click.ParamType
    TextChoice = click.Choice

C = TypeVar("C", bound=click.Command)

_PLAIN = regex(r"[\w@%+:./-][\w@%+:./~-]*").fullmatch

AFTER = "distui.after"
"""Key of `ctx.meta` under which the words after `--` are found."""

CONSOLE = "distui.console"
"""Key of click's object, beside the global options, under which the console of the call is found."""


class Choice(TextChoice):
    """One of a few words; another one is refused with the nearest of them, as keys of a job file are.

    `before` has names that were used before, and what they are now.
    """

    def __init__(self, choices: Sequence[str], before: Mapping[str, str] | None = None) -> None:
        super().__init__(choices)
        self._before = before or {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """See click."""
        word = self._before.get(str(value), str(value))
        if word not in self.choices:
            from distui.spec.yaml.called import meant
            from distui.spec.yaml.problems import shown

            listed = ", ".join(f"'{choice}'" for choice in self.choices)
            self.fail(f"{shown(word)} is not one of {listed}{meant(word, self.choices)}", param, ctx)
        return word


class DurationType(FloatParam):
    """Seconds, written `30s`, `10m`, `1h30m` or `90`."""

    name = "dur"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See click."""
        try:
            found = value if isinstance(value, float) else seconds(str(value))
        except UsageError as exc:
            self.fail(exc.message, param, ctx)
        if found < self._least:
            self.fail(f"'{value}' is too often; at least {self._least:g}s", param, ctx)
        return found


class RanksType(RanksParam):
    """Ranks, written `0,4-7`."""

    name = "ranks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[int]:
        """See click."""
        if isinstance(value, frozenset):
            return value
        ranks: set[int] = set()
        for part in str(value).split(","):
            first, dash, last = part.strip().partition("-")
            low, high = whole(first, 5), whole(last if dash else first, 5)
            if low is None or high is None or high < low:
                self.fail(f"'{value}' is not a set of ranks; write 0,4-7", param, ctx)
            ranks.update(range(low, high + 1))
        return frozenset(ranks)


def offered(names: Iterable[str], typed: str, before: str = "") -> list[CompletionItem]:
    """The names that begin with what was typed, behind what stands before them in the word.

    click's scripts put words on the command line as they are, and a file or folder may be called `x$(rm -r .)`: of a
    name that is more than a plain word to a shell or a terminal nothing is offered. Shells quote what they complete
    as files themselves.
    """
    return [CompletionItem(before + name) for name in names if name.startswith(typed) and _PLAIN(name)]


class RunType(TextParam):
    """A run's name; completes to the runs recorded here."""

    name = "run"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """See click."""
        try:
            names = sorted(p.name for p in paths(os.environ).runs.iterdir() if p.name[0] != ".")
        except OSError:
            names = []
        return offered(names, incomplete)


class HostsType(TextParam):
    """A set of hosts; completes to hosts and groups of the inventory."""

    name = "set"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """See click."""
        from distui.cli.settings import settings_of

        try:
            found = settings_of(ctx).selection.maybe_inventory()
        except UsageError:
            found = None
        names = [h.name for h in found.hosts] + [f"@{g}" for g in found.groups] if found is not None else []
        done, comma, last = incomplete.rpartition(",")
        return offered(names, last, done + comma)


class JobType(TextParam):
    """A job file; completes to files, and to the jobs in ./jobs by name."""

    name = "job"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """See click."""
        known = [p.stem for p in sorted(Path("jobs").glob("*.yaml"))] if "/" not in incomplete else []
        # bash's script drops the words before the files, and takes files where there is no word after them
        return [CompletionItem(incomplete, type="file"), *offered(known, incomplete)]


DURATION = DurationType()
EVERY = DurationType(least=0.5)
RANKS = RanksType()
RUN = RunType()
HOSTS = HostsType()
JOB = JobType()


def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Remember a global option that was given; lists add up, a later single value wins."""
    if value in (None, (), 0) or ctx.resilient_parsing:
        return
    flags = ctx.ensure_object(dict)
    name = param.name or ""
    if name == "json":
        flags["output"] = "json"
    elif isinstance(value, tuple):
        flags[name] = (*flags.get(name, ()), *value)
    elif name == "verbose":
        flags[name] = flags.get(name, 0) + value
    else:
        flags[name] = value


def global_options() -> list[click.Option]:
    """Fresh click options for one command."""

    def option(*names: str, help: str, **rest: Any) -> click.Option:
        return click.Option(list(names), help=help, expose_value=False, callback=keep, **rest)

    return [
        option("-i", "--hosts-file", metavar="F", help="Inventory instead of ./hosts.yaml."),
        option(
            "-H",
            "--host",
            type=HOSTS,
            multiple=True,
            metavar="SET",
            help="Hosts: node[01-04], @group, node01:0-3. Repeatable.",
        ),
        option("-l", "--label", multiple=True, metavar="K=V", help="Hosts with a label. Repeatable."),
        option("--hostfile", metavar="F", help="Hosts from lines `host slots=N`."),
        option("-o", "--output", type=Choice(OUTPUTS), help="Output format."),
        option("--json", is_flag=True, default=None, help="Same as -o json."),
        option("-q", "--quiet", is_flag=True, default=None, help="Print only what is essential."),
        option("-v", "--verbose", count=True, help="Print more; -vv even more."),
        option("--color", type=Choice(COLORS), help="Colours; auto means on a terminal."),
        option("--no-input", is_flag=True, default=None, help="Never ask; refuse what needs an answer."),
        option("-y", "--yes", is_flag=True, default=None, help="Answer yes to every question."),
        option("--config", metavar="F", help="Config file to use instead of the usual ones."),
        option("--readonly", is_flag=True, default=None, help="Refuse whatever changes a host or a run."),
        option("--theme", metavar="NAME", help="Colours of the terminal UI: dark, light, ansi, or one of textual's."),
        option("--ascii", is_flag=True, default=None, help="Only ASCII characters in the terminal UI."),
        option("--timeout", type=DURATION, metavar="DUR", help="Limit for the whole command; `run` stops its run."),
    ]


def refuse_output(ctx: click.Context) -> None:
    """Raise UsageError when the command line asks for a form of output that the verb has not."""
    known = outputs_of(ctx.command)
    wanted = ctx.ensure_object(dict).get("output", "table")
    if wanted not in known:
        others = f"it has -o {', '.join(known)}" if len(known) > 1 else "what it prints has one form only"
        raise UsageError(f"`{ctx.command_path}` has no output -o {wanted}", hint=f"leave -o away; {others}")


def add_globals(command: C) -> C:
    """`command` with the global options added, but for those it has of its own."""
    own = {name for p in command.params for name in p.opts}
    command.params += [o for o in global_options() if not own.intersection(o.opts)]
    command.context_settings.setdefault("help_option_names", ["-h", "--help"])
    return command


COMMAND_WORDS = "the words of a command go after `--`"


class Verb(click.Command):
    """A verb: its help names its own options only, and words after `--` are kept apart in `ctx.meta[AFTER]`."""

    takes_words = False
    outputs: tuple[str, ...] = ("table",)
    """What it can do with `-o`; the others are refused."""
    does = ""
    """Its action: a module of `distui.cli.actions`, or a function of one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[AFTER] = tuple(args[at + 1 :])
            args = args[:at]
            if not self.takes_words:
                raise click.UsageError(f"`{ctx.command_path}` takes nothing after `--`", ctx)
        ctx.allow_extra_args = self.takes_words
        left = super().parse_args(ctx, args)
        if left and not ctx.resilient_parsing:
            what = "got unexpected extra argument" + "s" * (len(left) > 1)
            raise click.UsageError(f"{what} ({' '.join(left)}): {COMMAND_WORDS}", ctx)
        return left

    def invoke(self, ctx: click.Context) -> Any:
        """See click; a form of output that it has not is refused before anything is read or done."""
        refuse_output(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verb's own options and a pointer to the global ones."""
        shared = {o.name for o in global_options()}
        options = (p for p in self.get_params(ctx) if isinstance(p, click.Option) and p.name not in shared)
        own = [record for option in options if (record := option.get_help_record(ctx))]
        if own:
            with formatter.section("Options"):
                formatter.write_dl(own)
        formatter.write_paragraph()
        formatter.write_text("Global options (-H, -i, -o, --json, -y ...): see `distui --help`.")


class WordsVerb(Verb):
    """A verb that takes words after `--`."""

    takes_words = True

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """See click; with the words."""
        return [*super().collect_usage_pieces(ctx), "[-- WORD...]"]


def verb(
    name: str, does: str, *, words: bool = False, outputs: Sequence[str] = ()
) -> Callable[[Callable[[], None]], click.Command]:
    """Make a function a verb with the global options, of which it has the help, and the arguments by decorators.

    What it `does` is a module of `distui.cli.actions`, or a function of one: imported only when the verb is called, so
    that help costs nothing. It gets the settings, the console, the arguments by name, and with `words` those after
    `--`. `outputs` are the forms of output that the verb has beside words for people.
    """
    module, _, function = does.partition(".")

    def decorate(declared: Callable[[], None]) -> click.Command:
        @click.pass_context
        def callback(ctx: click.Context, /, **given: Any) -> int:
            from distui.cli.console import of
            from distui.cli.settings import settings_of

            settings = settings_of(ctx)
            if words:
                given["words"] = ctx.meta.get(AFTER, ())
            out = ctx.ensure_object(dict)[CONSOLE] = of(settings)
            action = getattr(import_module(f"distui.cli.actions.{module}"), function or "act")
            code: int = action(settings, out, **given)
            return code

        made: Verb = click.command(name, cls=WordsVerb if words else Verb)(declared)
        made.callback, made.outputs, made.does = callback, ("table", *outputs), does
        return add_globals(made)

    return decorate
