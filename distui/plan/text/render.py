"""A plan for eyes and for pasting: who runs where and why, and the commands that do it."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from distui.amounts import counted, duration
from distui.plan.command import process
from distui.plan.command.env import masked
from distui.plan.command.insight import hook_folder, words
from distui.plan.content import mounts
from distui.plan.content.build import build_argv, build_lines
from distui.plan.content.code import code_lines
from distui.plan.labels import format_ranks, named_ranks
from distui.plan.model import HostNetwork, RunPlan, Task
from distui.plan.visible import UNPRINTABLE, visible
from distui.spec.hosts.names import fold

SHOWN = 2
"""Tasks whose commands are shown when not all are asked for."""


def render_text(plan: RunPlan, *, full: bool = False, width: int = 100) -> str:
    """The plan as text: table, rendezvous point, reasons, warnings, environment, commands.

    The commands of a host work when pasted into bash or zsh there; secrets are taken from that shell's
    environment. Without `full`, the commands of the first tasks stand for all.
    """
    sections = (
        _head(plan),
        _table(plan),
        _wrapped(f"{_listens(plan)}. {_course(plan)}{end_words(plan)}{_asked(plan)}", width, ""),
        _code(plan, full),
        _section("Data", [mounts.words(mount) for mount in plan.mounts], width),
        _build(plan),
        _section("Warnings", plan.warnings, width, "! "),
        _section("Why", list(_reasons(plan, full)), width),
        _section("Environment", list(_environment(plan, full)), width),
        _section("Insight", list(_insight(plan, full)), width),
        "Commands\n" + "\n\n".join(_blocks(plan, full, width)),
    )
    return "\n\n".join(s for s in sections if s) + "\n"


# facts of the plan


def _head(plan: RunPlan) -> str:
    hosts = len(plan.hosts)
    what = "task" if plan.rank_names else "rank"
    counts = f"{counted(plan.world_size, what)} on {counted(hosts, 'host')}"
    words = [f"Plan {plan.run_id}", f"job {plan.job}", counts, f"launcher {plan.launcher}"]
    words += [f"backend {plan.backend}"] if plan.launcher != "tf" else []
    how = "built where it is missing" if plan.build is not None else f"pull: {plan.pull}"
    image = f"\nimage {plan.image} ({how})" if plan.image else ""
    return visible(", ".join(words)) + visible(image).replace("\\n", "\n", 1)


def _table(plan: RunPlan) -> str:
    header = (
        "NODE",
        "HOST",
        "TASKS" if plan.rank_names else "RANKS",
        "GPUS",
        "ADDRESS",
        "INTERFACE",
        "FABRIC",
        "ENGINE",
    )
    rows = [header, *(_row(plan, net) for net in plan.networks)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def _row(plan: RunPlan, net: HostNetwork) -> tuple[str, ...]:
    tasks = plan.tasks_on(net.host)
    ranks = held(tasks)
    gpus = format_ranks(dict.fromkeys(g for t in tasks for g in t.gpus)) or "-"
    first = tasks[0]
    return (
        str(first.node_rank),
        visible(net.host),
        ranks,
        gpus,
        net.addr,
        visible(net.ifname),
        net.fabric,
        first.engine,
    )


def held(tasks: Sequence[Task]) -> str:
    """What a host holds: `0-7`, or where tasks have names `chief/0 worker/0-1`."""
    if not any(t.labels.get("distui.name") for t in tasks):
        return format_ranks(r for t in tasks for r in t.ranks)
    numbers: dict[str, list[int]] = {}
    for task in tasks:
        role, slash, number = task.name.rpartition("/")
        numbers.setdefault(role + slash if slash else task.name, []).extend([int(number)] if slash else [])
    return " ".join(role + format_ranks(found) for role, found in numbers.items())


def _listens(plan: RunPlan) -> str:
    """Where the ranks meet."""
    if plan.launcher == "tf":
        addresses = {n.host: n.addr for n in plan.networks}
        listening = [t for t in plan.tasks if t.role != "evaluator"]
        return ", ".join(f"{t.name} listens on {addresses[t.host]} port {t.port}" for t in listening)
    method = "" if plan.init_method == "env://" else f", init method {plan.init_method}"
    return f"Rank 0 listens on {plan.master_addr} port {plan.master_port}{method}"


def end_words(plan: RunPlan) -> str:
    """Whose end is the run's, when it is not everybody's."""
    waited = set(plan.judges)
    others = [t.name for t in plan.tasks if t.index not in waited]
    if not others:
        return ""
    judges = [t.name for t in plan.tasks if t.index in waited]
    many = "s" if len(judges) == 1 else ""
    return f" The run ends when {', '.join(judges)} end{many}; {', '.join(others)} are then stopped."


def _asked(plan: RunPlan) -> str:
    """What the job asks for beyond exit status 0."""
    asked = []
    if plan.success is not None:
        need = plan.success
        asked += [f"it lasts {duration(need.min_seconds)}"] if need.min_seconds is not None else []
        asked += [f"a rank prints what {need.regex} matches"] if need.regex is not None else []
        asked += [f"{need.file} is there at the end"] if need.file is not None else []
    asked += [f"all ranks print the same for {plan.same}"] if plan.same is not None else []
    return f" It has succeeded only if {', and '.join(asked)}." if asked else ""


def _build(plan: RunPlan) -> str:
    """What the image is built from, and the commands that do it."""
    if plan.build is None or plan.image is None:
        return ""
    commands = dict.fromkeys(t.engine_command for t in plan.tasks if t.engine != "process")
    lines = [
        *build_lines(plan.build),
        *(shlex.join(build_argv(c, plan.image, plan.build, plan.pull)) for c in commands),
    ]
    return "\n".join(["Build", *(f"  {visible(line)}" for line in lines)])


def _code(plan: RunPlan, full: bool) -> str:
    """What of this machine's files the hosts get. Lines as they are: a diff is not wrapped."""
    if plan.code is None:
        return ""
    return "\n".join(["Code", *(f"  {visible(line)}" for line in code_lines(plan.code, full=full))])


def _course(plan: RunPlan) -> str:
    """What happens when a rank fails."""
    fail = "stop the others" if plan.on_fail == "stop" else "leave the others running"
    message = f"When a {'task' if plan.rank_names else 'rank'} fails: {fail} (grace {duration(plan.stop_grace)})."
    if plan.min_nodes is not None:
        needed = f"{plan.min_nodes} of {len(plan.tasks)} nodes"
        message = (
            f"When a node is lost: continue while {needed} are left; then {fail} (grace {duration(plan.stop_grace)})."
        )
    if plan.max_restarts:
        message = (
            f"When a rank fails torchrun starts the ranks again, up to {plan.max_restarts} times. After that: "
            + message[0].lower()
            + message[1:]
        )
    if plan.max_duration is not None:
        message += f" Each task is stopped after {duration(plan.max_duration)} by `timeout` around its command."
    if plan.on_hang != "tell":
        then = "restart the run" if plan.on_hang == "restart" else "stop the run"
        message += f" When ranks stand still for {duration(plan.stall_after)}: {then}."
    if plan.attempts > 1:
        message += f" When the run has failed: restart it, {plan.attempts} attempts in all."
    return message


def _section(title: str, lines: Sequence[str], width: int, mark: str = "  ") -> str:
    if not lines:
        return ""
    return "\n".join([title, *(_wrapped(line, width, mark) for line in lines)])


def _wrapped(line: str, width: int, mark: str) -> str:
    text, indent = visible(line).lstrip(), len(line) - len(line.lstrip())
    return textwrap.fill(
        text,
        max(width, 40),
        initial_indent=mark + " " * indent,
        subsequent_indent=" " * (len(mark) + indent + 2 * bool(mark)),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _reasons(plan: RunPlan, full: bool) -> Iterator[str]:
    """Reasons of the run, then of each host; a host like the first one is not repeated."""
    yield from plan.reasons
    same = [n for n in plan.networks[1:] if _kind(n) == _kind(plan.networks[0])]
    for net in plan.networks:
        if full or net not in same:
            yield f"{net.host}:"
            yield from (f"  {reason}" for reason in net.reasons)
    if same and not full:
        yield f"{counted(len(same), 'more host')} the same: {fold(n.host for n in same)}"


def _kind(net: HostNetwork) -> tuple[object, ...]:
    """A host's reasons without what is bound to differ: its addresses."""
    return (
        net.ifname,
        net.fabric,
        net.hcas,
        tuple(re.sub(r"[0-9a-fA-F:.]*[.:][0-9a-fA-F:.]+", "", r) for r in net.reasons),
    )


def _environment(plan: RunPlan, full: bool) -> Iterator[str]:
    """What all tasks share, then what is each one's own."""
    lines = {t.index: masked(t) for t in plan.tasks}
    shared = [line for line in masked(plan.tasks[0]) if all(line in own for own in lines.values())]
    yield from (_shortened(line, full) for line in shared)
    shown = plan.tasks if full else plan.tasks[: max(SHOWN, 8)]
    for task in shown:
        own = [_shortened(line, full) for line in lines[task.index] if line not in shared]
        if own:
            yield f"{task.name}: {' '.join(own)}"
    if len(shown) < len(plan.tasks):
        yield f"{counted(len(plan.tasks) - len(shown), 'more task')} the same"


def _insight(plan: RunPlan, full: bool) -> Iterator[str]:
    """What ranks get so that `distui why` can ask them; one task stands for all, whose folders differ by its number."""
    asked = [task for task in plan.tasks if task.insight]
    for task in asked if full else asked[:1]:
        yield f"{task.name}:"
        yield from (f"  {line}" for line in words(task))
    if len(asked) > 1 and not full:
        yield f"{counted(len(asked) - 1, 'more task')} the same, each with a folder of its own"


def _shortened(line: str, full: bool) -> str:
    return line if full or len(line) <= 200 else f"{line[:180]}... ({len(line)} characters)"


# commands


def _blocks(plan: RunPlan, full: bool, width: int) -> Iterator[str]:
    """Per host a block of lines that starts its tasks."""
    shown = plan.tasks if full else plan.tasks[:SHOWN]
    if plan.code is not None:
        yield f"# tree {plan.code.tree} of the code is put on every host first; what is pasted needs it there"
    if full and any(t.engine == "process" for t in shown):
        yield _scripts()
    for host in dict.fromkeys(t.host for t in shown):
        yield "\n".join(block for t in shown if t.host == host for block in _block(t, full, width))
    rest = len(plan.tasks) - len(shown)
    if rest:
        yield f"# {counted(rest, 'more task')} the same; --full prints all"


def _block(task: Task, full: bool, width: int) -> Iterator[str]:
    yield f"# {visible(task.host)}: {_ranks(task)}"
    if task.engine == "process" and not full:
        yield "# without a container, under a small supervising script (--full prints it):"
        yield folded(process.program(task), width)
        return
    yield from start_lines(task, width)


def start_lines(task: Task, width: int) -> Iterator[str]:
    """All that starts a task, for bash or zsh on its host: its files, its command, and the env file away again."""
    yield f"mkdir -p -m 700 {quoted(task.run_dir)}"
    yield env_heredoc(task)
    if task.hostfile:
        yield f"printf '%s\\n' {' '.join(map(quoted, task.hostfile_lines))} >{quoted(task.hostfile)}"
    if task.insight:
        yield f"mkdir -p {quoted(hook_folder(task.run_dir))} && mkdir -m 777 {quoted(task.insight)}"
    yield folded(task.start, width) if task.engine != "process" else _process_line(task, width)
    yield f"rm -f {quoted(task.env_file)}"


def _ranks(task: Task) -> str:
    if task.labels.get("distui.name"):
        return task.name
    return named_ranks(task.ranks)


def env_heredoc(task: Task) -> str:
    """Lines that write the task's env file; secrets as bare names, which take their value from the environment."""
    lines = [*(f"{k}={v}" for k, v in task.env.items()), *task.secrets]
    plain = [line for line in lines if not UNPRINTABLE.search(line)]
    end = "DISTUI_ENV"
    while end in plain:
        end += "_"
    file = quoted(task.env_file)
    odd = [f"printf '%s\\n' {quoted(line)} >>{file}" for line in lines if line not in plain]
    return "\n".join([f"(umask 077; cat >{file}) <<'{end}'", *plain, end, *odd])


def quoted(word: str) -> str:
    r"""A word for bash or zsh; one with unprintable characters as `$'\x1b'`, which pastes safely."""
    if not UNPRINTABLE.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + UNPRINTABLE.sub(lambda m: "".join(f"\\x{b:02x}" for b in m[0].encode()), escaped) + "'"


def folded(argv: Sequence[str], width: int) -> str:
    """The command over several lines, a flag always beside its value."""
    lines: list[str] = []
    for group in groups([quoted(w) for w in argv]):
        if lines and len(lines[-1]) + len(group) + 3 <= width:
            lines[-1] += f" {group}"
        else:
            lines.append(f"  {group}" if lines else group)
    return " \\\n".join(lines)


def groups(words: Iterable[str]) -> Iterator[str]:
    """The words of an argv, a flag and the value after it as one."""
    held = ""
    for word in words:
        if held and not word.startswith("-"):
            yield f"{held} {word}"
            held = ""
            continue
        if held:
            yield held
        held = word if word.startswith("-") else ""
        if not held:
            yield word
    if held:
        yield held


def _scripts() -> str:
    """The process engine's scripts as functions that print them."""
    named = (("start", process.START), ("supervisor", process.SUPERVISOR), ("program", process.PROGRAM))
    functions = [f"distui_{name}() {{ cat <<'DISTUI_SCRIPT'\n{text}\nDISTUI_SCRIPT\n}}" for name, text in named]
    return "# on every host without a container engine\n" + "\n".join(functions)


def _process_line(task: Task, width: int) -> str:
    """The start argv with its scripts called by name."""
    names = {process.START: "start", process.SUPERVISOR: "supervisor", process.PROGRAM: "program"}
    words = [f'"$(distui_{names[w]})"' if w in names else quoted(w) for w in task.start]
    lines = [" ".join(words[:4]), *(f"  {g}" for g in groups(words[4:]))]
    return " \\\n".join(lines)
