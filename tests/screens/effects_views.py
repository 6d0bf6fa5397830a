"""What the keys of all screens but the run view do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from every_key import Case, effect
from textual.command import CommandPalette

from distui.tui.dialogs.help import HelpScreen
from distui.tui.dialogs.menu import MenuScreen
from distui.tui.dialogs.text import TextScreen
from distui.tui.doctor.fixing import FixDialog
from distui.tui.frame.commands import CommandBar
from distui.tui.hosts.container_log import ContainerLogScreen
from distui.tui.launch.screen import LaunchScreen
from distui.tui.launch.template_choice import TemplateChoice
from distui.tui.problems.screen import ProblemsScreen
from distui.tui.run.screen import RunScreen
from distui.tui.runs.compare_screen import CompareScreen

Steps = AsyncIterator[None]

# Hosts and one host.


@effect("Hosts", "describe")
async def describe(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, TextScreen) and case.screen.crumbs[-1] == "node01")
    assert "550.90" in case.text


@effect("Hosts", "shell")
@effect("One host", "shell")
async def shell(case: Case) -> Steps:
    yield
    await case.until(lambda: case.lent == [("ssh", "node01")])


@effect("Hosts", "probe")
@effect("One host", "probe")
async def probe(case: Case) -> Steps:
    yield
    await case.until(lambda: case.did("probe", "node01"))


@effect("Hosts", "filter")
@effect("One host", "filter")
@effect("Jobs", "filter")
@effect("Runs", "filter")
@effect("Doctor", "filter")
@effect("Problems", "filter")
@effect("First start", "filter")
@effect("A text", "filter")
@effect("A container's log", "filter")
async def filter_row(case: Case) -> Steps:
    yield
    assert case.filtering
    await case.press("z", "z", "q", "enter")
    assert case.screen.filter_text == "zzq"
    assert not case.filtering


@effect("Hosts", "sort")
async def sort(case: Case) -> Steps:
    before = case.screen.sort
    yield
    assert case.screen.sort != before


@effect("Hosts", "reverse")
async def reverse(case: Case) -> Steps:
    before = [row.key for row in case.screen.table.rows]
    yield
    assert [row.key for row in case.screen.table.rows] == before[::-1]


@effect("Hosts", "raw")
@effect("One host", "raw")
async def raw(case: Case) -> Steps:
    yield
    await case.until(lambda: case.screen.crumbs[-1] == "node01.json")
    assert json.loads(case.screen.text)


@effect("Hosts", "edit_hosts")
async def edit_hosts(case: Case) -> Steps:
    case.backend.title = str(case.folder / "hosts.yaml")
    (case.folder / "hosts.yaml").write_text("version: 1\nhosts: {node01: {}}\n")
    yield
    await case.until(lambda: case.lent == [("my-editor", case.backend.title)])


@effect("Hosts", "fold")
async def fold(case: Case) -> Steps:
    yield
    assert [row.key for row in case.screen.table.rows] == ["node05", "@first", "node03", "node04", "gw1"]


@effect("Hosts", "fold_all")
async def fold_all(case: Case) -> Steps:
    yield
    assert [row.key for row in case.screen.table.rows] == ["node05", "@first", "@second", "gw1"]


@effect("Hosts", "preview")
async def preview(case: Case) -> Steps:
    case.screen.preview_mode = "always"
    case.screen._tick()
    assert case.screen.query_one("#preview").display
    yield
    assert not case.screen.query_one("#preview").display


@effect("Hosts", "back")
@effect("One host", "back")
@effect("A container's log", "back")
async def back_from_a_filter(case: Case) -> Steps:
    here = case.screen
    here.filter_text = "1"
    here.filter_changed()
    yield
    assert here.filter_text == ""
    assert case.screen is here


@effect("Hosts", "launch")
async def launch_here(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, LaunchScreen) and case.screen.draft.marked == ("node01",))


@effect("One host", "next_tab")
async def next_tab(case: Case) -> Steps:
    yield
    assert case.screen.tab == "net"


@effect("One host", "last_tab")
async def last_tab(case: Case) -> Steps:
    yield
    assert case.screen.tab == "log"


@effect("One host", "sort")
async def sort_rows(case: Case) -> Steps:
    before = dict(case.screen.orders)
    yield
    assert case.screen.orders != before


@effect("One host", "reverse")
async def reverse_rows(case: Case) -> Steps:
    before = [row.key for row in case.screen.rows.rows]
    yield
    assert [row.key for row in case.screen.rows.rows] == before[::-1]


@effect("One host", "graphs")
async def graphs(case: Case) -> Steps:
    before = case.screen.graphs
    yield
    assert case.screen.graphs != before


@effect("One host", "container_log")
async def container_log(case: Case) -> Steps:
    case.screen.action_show_tab("containers")
    await case.until(lambda: case.screen.container is not None)
    yield
    await case.until(lambda: isinstance(case.screen, ContainerLogScreen))


@effect("One host", "copy_facts")
async def copy_facts(case: Case) -> Steps:
    yield
    assert "550.90" in case.app.clipboard


@effect("One host", "kill_process")
async def kill_process(case: Case) -> Steps:
    case.screen.action_show_tab("procs")
    await case.until(lambda: case.screen.process is not None)
    pid = case.screen.process.process.pid
    yield
    await case.until(lambda: case.did("signal", "node01", pid, "4711", "TERM"))


# Jobs and the launch form.


@effect("Jobs", "launch_form")
async def launch_form(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, LaunchScreen))
    assert case.screen.crumbs[-1] == "llm-pretrain.yaml"


@effect("Jobs", "new_job")
async def new_job(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, TemplateChoice))
    await case.press("enter")
    await case.until(lambda: isinstance(case.screen, LaunchScreen) and "name: new-job" in case.screen.draft.text)
    assert case.screen.draft.file is None


@effect("Jobs", "show_text")
async def show_text(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, TextScreen) and "name: llm-pretrain" in case.screen.text)


@effect("Jobs", "reread")
async def reread(case: Case) -> Steps:
    case.backend.job_texts["second"] = "version: 1\nname: second\ncommand: [true]\n"
    assert "second" not in case.text
    yield
    await case.until(lambda: "second.yaml" in case.text)


@effect("Launch", "next_tab")
@effect("Launch", "last_tab")
async def yaml_tab(case: Case) -> Steps:
    yield
    assert case.screen.tab == "yaml"


@effect("Launch", "preflight")
async def preflight(case: Case) -> Steps:
    yield
    await case.until(lambda: ("preflight", case.screen.draft.run_id) in case.backend.calls)


@effect("Launch", "dry_run")
async def dry_run(case: Case) -> Steps:
    yield
    await case.until(lambda: "docker run" in (case.folder / f"{case.screen.draft.run_id}.plan.txt").read_text())


@effect("Launch", "save")
async def save_job(case: Case) -> Steps:
    changed = case.screen.draft.text.replace("per_host: 8", "per_host: 4")
    case.screen.draft.set_text(changed, now=True)
    yield
    await case.until(lambda: (case.folder / "llm-pretrain.yaml").read_text() == changed)


@effect("Launch", "undo")
async def undo_change(case: Case) -> Steps:
    draft, before = case.screen.draft, case.screen.draft.text
    case.screen.form.field("fabric").focus()
    await case.press("right")
    assert draft.text != before
    yield
    assert draft.text == before


@effect("Launch", "editor")
async def editor(case: Case) -> Steps:
    yield
    await case.until(lambda: len(case.lent) == 1 and case.lent[0][0] == "my-editor")
    assert case.lent[0][1].endswith("llm-pretrain.yaml")


@effect("Launch", "copy_command")
async def copy_command(case: Case) -> Steps:
    yield
    await case.until(lambda: "docker run" in case.app.clipboard)
    before = case.app.clipboard.partition("docker run")[0]
    assert "/hook && mkdir -m 777 " in before, "what the container mounts is made before it"


@effect("Launch", "compare")
async def compare(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, TextScreen) and "llm-7f3 to" in case.text)


@effect("Launch", "back")
async def back_to_jobs(case: Case) -> Steps:
    yield
    await case.until(lambda: case.screen.crumbs == ("Jobs",))


@effect("Launch", "launch")
async def launch(case: Case) -> Steps:
    yield
    await case.until(lambda: any(call[0] == "launch" for call in case.backend.calls))
    await case.until(lambda: isinstance(case.screen, RunScreen))


# Runs.


@effect("Runs", "open", "logs")
async def open_run(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, RunScreen) and case.screen.crumbs[1] == "llm-7f3")


@effect("Runs", "plan_of")
async def plan_of(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, TextScreen) and "MASTER_ADDR" in case.screen.text)


@effect("Runs", "diff")
async def diff(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, CompareScreen) and "llm-7f2 to llm-7f3" in case.text)


@effect("Runs", "mark")
async def mark_run(case: Case) -> Steps:
    yield
    assert case.screen.marked == ("llm-7f3",)


@effect("Runs", "again")
async def again(case: Case) -> Steps:
    asked = case.backend.calls.count(("runs",))
    yield
    await case.until(lambda: case.backend.calls.count(("runs",)) > asked)


@effect("Runs", "rerun")
async def rerun_ended(case: Case) -> Steps:
    await case.press("j", "j")
    assert case.screen.chosen.run == "llm-7f2"
    yield
    await case.until(lambda: any(call[0] == "launch" for call in case.backend.calls))


@effect("Runs", "stop")
@effect("One run", "stop")
async def stop(case: Case) -> Steps:
    yield
    await case.until(lambda: case.live.asked == [("stop", None)])


@effect("Runs", "kill")
@effect("One run", "kill")
async def kill(case: Case) -> Steps:
    yield
    await case.until(lambda: case.live.asked == [("stop", 0.0)])


@effect("Runs", "prune")
async def prune(case: Case) -> Steps:
    await case.press("G")
    assert case.screen.chosen.run == "gloo-01a"
    yield
    await case.until(lambda: case.did("prune", "gloo-01a"))


# Doctor.


@effect("Doctor", "evidence")
async def evidence(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, TextScreen))


@effect("Doctor", "next_finding", "prev_finding")
async def step_finding(case: Case) -> Steps:
    before = case.screen.finding
    yield
    found = case.screen.finding
    assert found != before
    assert found.verdict in ("warn", "fail")


@effect("Doctor", "next_host")
async def next_host(case: Case) -> Steps:
    case.screen.host_at = 0
    yield
    assert case.screen.host_at == 1


@effect("Doctor", "prev_host")
async def prev_host(case: Case) -> Steps:
    case.screen.host_at = 2
    yield
    assert case.screen.host_at == 1


@effect("Doctor", "probe")
async def probe_all(case: Case) -> Steps:
    case.backend.calls.clear()
    yield
    await case.until(lambda: case.did("probe", *(host.name for host in case.backend.hosts)))


@effect("Doctor", "fix")
async def fix(case: Case) -> Steps:
    await case.press("n")
    yield
    await case.until(lambda: isinstance(case.screen, FixDialog) and case.screen.lines)


@effect("Doctor", "smoke")
async def smoke(case: Case) -> Steps:
    yield
    await case.until(lambda: case.did("smoke", "llm-pretrain"))


@effect("Doctor", "report")
async def report(case: Case) -> Steps:
    yield
    await case.until(lambda: "publickey refused" in case.app.clipboard)


@effect("Doctor", "text")
async def findings(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, TextScreen) and "publickey refused" in case.screen.text)


@effect("Doctor", "save")
async def save_findings(case: Case) -> Steps:
    yield
    await case.until(lambda: any("publickey refused" in path.read_text() for path in case.folder.glob("*.txt")))


# Problems.


@effect("Problems", "probe")
async def probe_listed(case: Case) -> Steps:
    yield
    await case.until(lambda: any(call[0] == "probe" and "node05" in call for call in case.backend.calls))


@effect("Problems", "fold")
async def fold_alike(case: Case) -> Steps:
    before = case.screen.folds
    yield
    assert case.screen.folds != before


@effect("Problems", "copy_all")
async def copy_problems(case: Case) -> Steps:
    yield
    await case.until(lambda: "wrong node05: publickey refused" in case.app.clipboard)


# The first start.


@effect("First start", "pick")
async def pick(case: Case) -> Steps:
    yield
    assert case.screen.picked == {"gw1"}


@effect("First start", "pick_all")
async def pick_all(case: Case) -> Steps:
    yield
    assert case.screen.picked == {"gw1", "n1"}


@effect("First start", "add")
async def add_by_name(case: Case) -> Steps:
    yield
    await case.press(*"n7", "enter")
    assert case.screen.picked == {"n7"}


@effect("First start", "demo")
async def demo(case: Case) -> Steps:
    yield
    assert case.outcomes == ["demo"]


@effect("First start", "try_again")
async def try_again(case: Case) -> Steps:
    before = len(case.first.asked)
    yield
    await case.until(lambda: len(case.first.asked) > before)


# A text, a container's log, lists.


@effect("A text", "copy_all")
async def copy_all(case: Case) -> Steps:
    yield
    assert case.app.clipboard == case.screen.text


@effect("A text", "side_right")
@effect("A container's log", "side_right")
async def side_right(case: Case) -> Steps:
    yield
    assert case.screen.left > 0


@effect("A text", "side_left")
@effect("A container's log", "side_left")
async def side_left(case: Case) -> Steps:
    case.screen.action_side_right()
    case.screen.action_side_right()
    before = case.screen.left
    yield
    assert case.screen.left < before


@effect("Lists", "down")
@effect("Lists", "half_down")
@effect("Lists", "page_down")
async def down(case: Case) -> Steps:
    yield
    few = case.screen.rows.size.height
    assert case.screen.rows.at == {"down": 1, "half_down": few // 2, "page_down": few - 1}[case.action]


@effect("Lists", "up")
@effect("Lists", "half_up")
@effect("Lists", "page_up")
async def up(case: Case) -> Steps:
    case.screen.rows._move_to(100)
    yield
    few = case.screen.rows.size.height
    assert case.screen.rows.at == 100 - {"up": 1, "half_up": few // 2, "page_up": few - 1}[case.action]


@effect("Lists", "first")
async def first(case: Case) -> Steps:
    case.screen.rows._move_to(100)
    yield
    assert case.screen.rows.at == 0


@effect("Lists", "last")
async def last(case: Case) -> Steps:
    yield
    assert case.screen.rows.at == len(case.screen.rows.rows) - 1


# Everywhere.


@effect("Everywhere", "view_hosts", "view_jobs", "view_runs", "view_doctor")
async def view(case: Case) -> Steps:
    case.app.show_view("jobs" if case.action != "view_jobs" else "runs")
    await case.pilot.pause()
    yield
    await case.until(lambda: case.app.current_mode == case.action.removeprefix("view_"))


@effect("Everywhere", "problems")
async def problems(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, ProblemsScreen))


@effect("Everywhere", "help")
async def help_screen(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, HelpScreen))


@effect("Everywhere", "menu")
async def menu(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, MenuScreen) and "launch_form" in case.screen.actions)


@effect("Everywhere", "command")
async def command(case: Case) -> Steps:
    yield
    await case.until(lambda: case.screen.query_one(CommandBar).has_class("-open"))


@effect("Everywhere", "command_palette")
async def palette(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, CommandPalette))


@effect("Everywhere", "theme")
async def theme(case: Case) -> Steps:
    before = case.app.theme
    yield
    await case.until(lambda: case.app.theme != before)


@effect("Everywhere", "back", "leave")
async def back(case: Case) -> Steps:
    case.app.open_text("some text", "one\ntwo")
    await case.until(lambda: isinstance(case.screen, TextScreen))
    yield
    await case.until(lambda: not isinstance(case.screen, TextScreen))


@effect("Everywhere", "copy_or_hint")
async def copy_or_hint(case: Case) -> Steps:
    yield
    await case.until(lambda: "q to quit" in case.notified)


@effect("Everywhere", "leave_now")
async def leave_now(case: Case) -> Steps:
    case.backend.live.clear()
    yield
    await case.until(lambda: case.app._exit)


@effect("One run", "job")
@effect("Runs", "job")
async def its_job(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, LaunchScreen) and case.screen.draft.text)
    assert case.screen.crumbs[-1] == "llm-pretrain.yaml"
    assert case.screen.draft.marked[0] == "node01"


# What is typed.


@effect("A field of the form", "keep", "end_typing", "on", "save_typed")
async def field_typed(case: Case) -> Steps:
    before = case.screen.draft.text
    await case.press("x")
    yield
    await case.until(lambda: not case.screen.form.field("image").typing)
    wanted = before if case.action == "end_typing" else before.replace("25.01-py3", "25.01-py3x")
    assert case.screen.draft.text == wanted
    if case.action == "save_typed":
        await case.until(lambda: (case.folder / "llm-pretrain.yaml").read_text() == wanted)
    assert case.screen.form.field("command" if case.action == "on" else "image").has_focus


@effect("The text of a job", "complete")
async def text_completed(case: Case) -> Steps:
    await case.press(*"on_f")
    yield
    assert case.screen.query_one("JobText").text.endswith("on_fail: ")


@effect("The text of a job", "save")
async def text_saved(case: Case) -> Steps:
    await case.press("#")
    yield
    await case.until(lambda: (case.folder / "llm-pretrain.yaml").read_text().endswith("#"))


@effect("The text of a job", "undo", "redo")
async def text_undone(case: Case) -> Steps:
    before = case.screen.query_one("JobText").text
    await case.press("x")  # one key: of two that a busy machine gets seconds apart, each is undone by itself
    if case.action == "redo":
        case.screen.query_one("JobText").undo()
    yield
    assert (case.screen.query_one("JobText").text == before) == (case.action == "undo")


@effect("The text of a job", "next_problem")
async def text_problem(case: Case) -> Steps:
    case.screen.query_one("JobText").load_text("version: 1\nname: x\nimagee: y\n")
    await case.until(lambda: case.screen.draft.preview.problems)
    yield
    assert case.screen.query_one("JobText").cursor_location[0] == 2


@effect("The text of a job", "next_tab", "leave_text")
async def text_left(case: Case) -> Steps:
    yield
    assert case.screen.tab == "form"


@effect("A filter", "keep", "dismiss")
async def filter_typed(case: Case) -> Steps:
    await case.press(*"node02")
    yield
    assert case.screen.filter_text == ("node02" if case.action == "keep" else "")
    assert not case.filtering


@effect("A command", "run_typed")
async def command_done(case: Case) -> Steps:
    await case.press("end", "s")
    yield
    await case.until(lambda: case.screen.crumbs[-1] == "Jobs")


@effect("A command", "complete")
async def command_completed(case: Case) -> Steps:
    await case.press("end", "backspace", "b")
    await case.until(lambda: case.screen.query_one(CommandBar).query_one("Input")._suggestion == "jobs")
    yield
    assert case.screen.query_one(CommandBar).query_one("Input").value == "jobs"


@effect("A command", "older", "newer")
async def command_before(case: Case) -> Steps:
    if case.action == "newer":
        await case.press("up", "up")
    yield
    assert case.screen.query_one(CommandBar).query_one("Input").value == "hosts /node"


@effect("A command", "dismiss")
async def command_closed(case: Case) -> Steps:
    yield
    assert not case.screen.query_one(CommandBar).has_class("-open")
    assert case.screen.crumbs[0] == "Hosts"
