"""The launch screen: the form writes the file, the plan follows, nothing starts without an answer."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes import JOB, FakeBackend, facts, gpu, launching, screen_text, settle, shot
from textual.events import AppBlur, AppFocus
from textual.widgets import Button, Input, TextArea
from training import until

from distui.cluster.jobs.job_templates import TEMPLATES
from distui.cluster.names import run_name
from distui.errors import UsageError
from distui.facts.host import Gpus
from distui.plan.model import RunPlan
from distui.runs.launch.gpu_users import GpuUser
from distui.spec.completion import describe
from distui.spec.hosts.inventory import Host, Inventory
from distui.tui.app import DistuiApp
from distui.tui.launch import screen as launch_screen
from distui.tui.launch.form.form_confirm import LaunchConfirm
from distui.tui.launch.form.form_field import FormField, Words
from distui.tui.launch.form.form_yaml import YamlPane
from distui.tui.launch.screen import LaunchScreen
from distui.tui.launch.template_choice import TemplateChoice


async def opened(
    app: Any, pilot: Any, backend: FakeBackend, job: int = 0, marked: tuple[str, ...] = ()
) -> LaunchScreen:
    """The launch screen with one of the backend's job files."""
    app.open_launch(backend.jobs()[job], marked)
    await settle(pilot)
    await until_planned(app.screen, pilot)
    assert isinstance(app.screen, LaunchScreen)
    return app.screen


async def until_planned(screen: Any, pilot: Any) -> None:
    """What was typed has reached the plan, and the hosts have told of its image."""
    screen.draft._later(now=True)
    await screen.draft._fresh.wait()
    await settle(pilot)


def problem_text(app: Any) -> str:
    """The notices."""
    return "\n".join(notice.message for notice in app._notifications)


def read(file: str) -> str:
    """What is in a file."""
    return Path(file).read_text()


def write(file: str, text: str) -> None:
    """Somebody else writes it."""
    Path(file).write_text(text)


def written(path: Path, content: bytes) -> None:
    """The same of what is no text."""
    path.write_bytes(content)


def there(file: str) -> bool:
    """Whether there is a file."""
    return Path(file).exists()


def linked(file: str, text: str) -> Path:
    """A file with this text in the place of one, which is a link to it from now on."""
    path = Path(file)
    real = path.with_name("real")
    real.write_bytes(text.encode())
    path.unlink()
    path.symlink_to(real)
    return real


def value(screen: LaunchScreen, name: str) -> str:
    """What a field of the form says."""
    return screen.form.field(name).value


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_form_and_plan(open_app: Any, backend: FakeBackend, size: tuple[int, int]) -> None:
    """The job in fields, the plan beside them; below 100 columns the plan is a tab and its state a line."""
    async with open_app(size) as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        text = screen_text(app)
        shot(app, f"launch-{size[0]}")
        assert isinstance(screen.draft.preview.plan, RunPlan)
        assert (value(screen, "hosts"), value(screen, "launcher"), value(screen, "on_fail")) == (
            "node[03-04]", "env", "stop",
        )  # fmt: skip
        assert "nvcr.io/nvidia/pytorch:25.01-py3" in text or size[0] == 120
        assert "ready" in text
        assert ("Why this network" in text) == (size[0] >= 100)
        assert max(len(line) for line in text.splitlines()) <= size[0]


async def test_narrow_windows_have_the_plan_as_a_tab(open_app: Any, backend: FakeBackend) -> None:
    """The warning stays visible in both."""
    async with open_app((80, 24)) as (app, pilot):
        await opened(app, pilot, backend, marked=("node04",))
        assert "warning" in screen_text(app)
        await pilot.press("]")
        await pilot.pause()
        text = screen_text(app)
        assert "RENDEZVOUS" in text
        assert "Launcher" not in text
        assert "warning" in text.splitlines()[-2]


async def test_typing_makes_the_plan_again(open_app: Any, backend: FakeBackend) -> None:
    """A field is edited in place; every key reaches the text, the rest of the file stays as it was."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.form.field("gpus").focus()
        await pilot.press("enter", "backspace", "4", "enter")
        await until_planned(screen, pilot)
        assert screen.draft.text == JOB.replace("gpus_per_host: 8", "gpus_per_host: 4")
        assert screen.draft.job is not None
        assert screen.draft.job.gpus_per_host == 4
        assert "edited" in screen_text(app)


async def test_choices_move_with_the_arrows(open_app: Any, backend: FakeBackend) -> None:
    """Right chooses the next, left the one before; the file says so."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.form.field("fabric").focus()
        await pilot.press("right")
        await until_planned(screen, pilot)
        assert "fabric: {kind: ib}" in screen.draft.text
        await pilot.press("left", "left")
        await until_planned(screen, pilot)
        assert "fabric: {kind: tcp}" in screen.draft.text


async def test_letters_are_text_while_typing(open_app: Any, backend: FakeBackend) -> None:
    """L in a field is a letter, not a launch; esc leaves the field and not the screen."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.form.field("image").focus()
        await pilot.press("enter", "L", "enter")
        await until_planned(screen, pilot)
        await pilot.press("enter", "x", "escape")
        await until_planned(screen, pilot)
        assert app.screen is screen
        assert value(screen, "image") == "nvcr.io/nvidia/pytorch:25.01-py3L"


async def test_who_comes_back_to_the_window_goes_on_typing(open_app: Any, backend: FakeBackend) -> None:
    """Many copy from another one what they type; terminals tell when theirs is left."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        field = screen.form.field("gpus")
        field.focus()
        await pilot.press("enter", "backspace", "4")
        for event in (AppBlur(), AppFocus()):
            app.post_message(event)
            await settle(pilot)
        await pilot.press("0")
        await settle(pilot)
        assert (field.value, field.typing) == ("40", True)
        await pilot.press("escape")
        await settle(pilot)
        assert (value(screen, "gpus"), field.typing, app.focused) == ("8", False, field)


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 2), (10, 40), (300, 4)])
async def test_a_window_of_any_size(open_app: Any, backend: FakeBackend, size: tuple[int, int]) -> None:
    """What has no room is not shown, and ends nothing: tiles are made small for a moment."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        screen.plan_view.unfolded = {0, 1}
        await pilot.resize_terminal(*size)
        await settle(pilot)
        for tab in screen._tabs():
            screen.action_show_tab(tab)
            await settle(pilot)
        await pilot.resize_terminal(120, 36)
        await settle(pilot)
        assert "Why this network" in screen_text(app)


@pytest.mark.parametrize(("name", "typed"), [("gpus", "x"), ("image", "L"), ("hosts", "[")])
async def test_esc_undoes_what_was_typed_in_field_and_text(
    open_app: Any, backend: FakeBackend, name: str, typed: str
) -> None:
    """Both say what they said before, whether what was typed could be read or not; hosts that were chosen, too."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03",))
        before, text = value(screen, name), screen.draft.text
        screen.form.field(name).focus()
        await pilot.press("enter", *typed)
        await until_planned(screen, pilot)
        assert screen.draft.text != text
        await pilot.press("escape")
        await until_planned(screen, pilot)
        assert screen.draft.text == text == f"{JOB}hosts: node03\n"
        assert value(screen, name) == before
        assert str(screen.draft.path) not in app.drafts


@pytest.mark.parametrize(("name", "typed", "written"), [("gpus", "x", "8x"), ("hosts", "node[", "node[")])
async def test_a_field_says_what_the_text_says_though_it_is_wrong(
    open_app: Any, backend: FakeBackend, name: str, typed: str, written: str
) -> None:
    """What was typed and can't be read stays in field and text until it is changed; so does what the YAML tab wrote."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.form.field(name).focus()
        await pilot.press("enter", *typed, "enter")
        await until_planned(screen, pilot)
        assert screen.draft.preview.problems
        assert f'"{written}"' in screen.draft.text or f": {written}\n" in screen.draft.text
        assert value(screen, name) == written
        screen.draft.set_text(screen.draft.text.replace(written, "1-"), now=True)
        await until_planned(screen, pilot)
        assert value(screen, name) == "1-"


async def test_what_a_field_cannot_say_is_edited_in_the_text(open_app: Any, backend: FakeBackend) -> None:
    """GPUs host by host: they are shown, enter leads to their line, and no key of the form is put over them."""
    text = JOB.replace("gpus_per_host: 8", "gpus_per_host:\n  node01: [0, 1]\n  node02: 2")
    backend.job_texts["llm-pretrain"] = text
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        row = next(line for line in screen_text(app).splitlines() if "GPUs " in line)
        assert re.search(r"node01 \[0-1\]; node02 2 +YAML", row)
        screen.form.field("gpus").focus()
        await pilot.press("enter")
        await settle(pilot)
        assert screen.tab == "yaml" and not screen.form.field("gpus").typing
        assert screen.query_one("JobText").cursor_location[0] == 5
        await pilot.press("escape")
        await settle(pilot)
        assert screen.draft.text == text


async def test_a_file_that_never_was_a_job_is_shown_as_it_is_written(open_app: Any, backend: FakeBackend) -> None:
    """Its fields are those of the text, and a change of one reaches the text; while it is no YAML none can."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, job=1)
        assert value(screen, "command") == "python"
        screen.form.field("command").focus()
        await pilot.press("enter", *" x.py", "enter")
        await until_planned(screen, pilot)
        assert "command: [python, x.py]" in screen.draft.text, "it was a list"
        assert value(screen, "command") == "python x.py"
        screen.draft.set_text("a: [", now=True)
        await until_planned(screen, pilot)
        assert value(screen, "command") == ""
        screen.form.field("command").focus()
        await pilot.press("enter", "x", "enter")
        await until_planned(screen, pilot)
        assert (screen.draft.text, value(screen, "command")) == ("a: [", "")
        assert "can't change this text" in problem_text(app)


@pytest.mark.parametrize(
    "command", ["cd /w && python t.py | tee log.$RANK", "python t.py --tag $${A} ${B:-c}", "cd /w\npython t.py"]
)
async def test_a_command_for_a_shell_stays_one(open_app: Any, backend: FakeBackend, command: str) -> None:
    """After an edit it is the same text and more; esc, and enter without an edit, leave the file as it was written."""
    block = "command: |-  # both\n  " + command.replace("\n", "\n  ")
    backend.job_texts["llm-pretrain"] = re.sub("command: .*", lambda _: block, JOB)
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        before = screen.draft.text
        assert value(screen, "command") == command
        screen.form.field("command").focus()
        await pilot.press("enter", "enter")
        assert screen.draft.text == before
        await pilot.press("enter", *" -v", "escape")
        assert screen.draft.text == before
        await pilot.press("enter", *" -v", "enter")
        await until_planned(screen, pilot)
        assert yaml.safe_load(screen.draft.text)["command"] == value(screen, "command") == f"{command} -v"


async def test_a_list_becomes_text_for_a_shell_where_one_is_needed(open_app: Any, backend: FakeBackend) -> None:
    """A pipe in the field of a job with a list is a pipe, and gone again with an undo."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        before = screen.draft.text
        screen.form.field("command").focus()
        await pilot.press("enter", *" | tee x", "enter")
        await until_planned(screen, pilot)
        made = yaml.safe_load(screen.draft.text)["command"]
        assert made == value(screen, "command") and made.endswith("'{init_method}' | tee x")
        screen.draft.action_undo()
        assert screen.draft.text == before


async def test_hosts_that_were_chosen_are_in_the_text(open_app: Any, backend: FakeBackend) -> None:
    """In form, text, plan, and in the file once it is saved; u takes them back, also after another choice."""
    ours = JOB.replace("name: llm-pretrain\n", "name: llm-pretrain\nhosts: node[01-02]  # ours\n")
    backend.job_texts["llm-pretrain"] = ours
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node04", "node03"))
        made = ours.replace("node[01-02]", '"node[04,03]"')
        assert (screen.draft.text, value(screen, "hosts")) == (made, "node[04,03]")
        assert screen.draft.preview.plan is not None and screen.draft.preview.plan.hosts == ("node04", "node03")
        assert "edited" in screen_text(app)
        screen.form.field("hosts").focus()
        await pilot.press("enter", *["backspace"] * 11, *"gw1", "enter")
        await until_planned(screen, pilot)
        assert screen.draft.text == ours.replace("node[01-02]", "gw1")
        for text, hosts in ((made, ("node04", "node03")), (ours, ("node01", "node02"))):
            await pilot.press("u")
            await until_planned(screen, pilot)
            assert screen.draft.text == text
            assert screen.draft.preview.plan is not None and screen.draft.preview.plan.hosts == hosts
        screen = await opened(app, pilot, backend, marked=("node04", "node03"))
        await pilot.press("w")
        await settle(pilot)
        assert read(screen.draft.path) == made
        assert not app.drafts


@pytest.mark.parametrize("hosts", ["node[03-04]", "{names: [node03, node04, gw1], count: 2}"])
async def test_hosts_that_a_job_has_already_leave_its_file_as_it_is(
    open_app: Any, backend: FakeBackend, hosts: str
) -> None:
    """Of a run's job mostly: J is no edit then."""
    backend.job_texts["llm-pretrain"] = f"{JOB}hosts: {hosts}\n"
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        assert screen.draft.text == f"{JOB}hosts: {hosts}\n"
        assert "edited" not in screen_text(app)


async def test_hosts_that_were_only_chosen_are_not_kept(open_app: Any, backend: FakeBackend) -> None:
    """Nothing is asked at the end for them; with an edit beside them they are, and edits that were there stay."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03",))
        screen.draft.set_text(screen.draft.text + "# mine\n", now=True)
        assert app.drafts[screen.draft.path] == (f"{JOB}hosts: node03\n# mine\n", JOB)
        await pilot.press("u")
        screen.draft.set_text(f"{JOB}hosts: node03\n", now=True)
        assert not app.drafts
        screen.draft.set_text(JOB + "# mine\n", now=True)
        again = await opened(app, pilot, backend, marked=("node04",))
        assert again.draft.text == f"{JOB}hosts: node04\n# mine\n"
        again.draft.set_text(again.draft.text + "# more\n", now=True)
        again.draft.set_text(f"{JOB}hosts: node04\n# mine\n", now=True)
        assert app.drafts == {again.draft.path: (JOB + "# mine\n", JOB)}


@pytest.mark.parametrize("mine", ["", "# mine\n"], ids=["hosts only", "beside an edit"])
async def test_hosts_that_were_only_chosen_are_not_kept_when_the_file_changes(
    open_app: Any, backend: FakeBackend, mine: str
) -> None:
    """What another program wrote is put into the text; of what is not saved only the edit stays."""
    theirs = JOB.replace("per_host: 8}", "per_host: 4}")
    async with open_app() as (app, pilot):
        first = await opened(app, pilot, backend)
        first.draft.set_text(mine + JOB, now=True)
        screen = await opened(app, pilot, backend, marked=("node03",))
        assert screen.draft.text == f"{mine}{JOB}hosts: node03\n"
        write(screen.draft.path, theirs)
        screen.draft.reread()
        assert screen.draft.text == f"{mine}{theirs}hosts: node03\n"
        assert app.drafts == ({screen.draft.path: (mine + theirs, theirs)} if mine else {})


async def test_hosts_that_cannot_be_put_into_a_text_are_said(open_app: Any, backend: FakeBackend) -> None:
    """The field says what the text says, and the plan is for that."""
    backend.job_texts["llm-pretrain"] = "{version: 1, name: a, image: i, hosts: node01, command: [x]}"
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03",))
        assert "node03 can't be put into this text" in problem_text(app)
        assert value(screen, "hosts") == "node01"
        assert screen.draft.preview.plan is not None and screen.draft.preview.plan.hosts == ("node01",)


async def test_problems_stand_at_their_lines(open_app: Any, backend: FakeBackend) -> None:
    """In the plan, under the text, and enter leads to the line."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, job=1)
        shot(app, "launch-broken")
        assert "1 error" in screen_text(app)
        assert "line 3  imagee" in screen_text(app)
        screen.plan_view.focus()
        await pilot.press("j", "j", "enter")
        await pilot.pause()
        shot(app, "launch-yaml")
        assert screen.tab == "yaml"
        assert screen.query_one("JobText").cursor_location[0] == 2
        assert "3:1 imagee: unknown key" in screen_text(app)


async def test_the_text_is_the_truth(open_app: Any, backend: FakeBackend) -> None:
    """Mending the text mends form and plan."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, job=1)
        await pilot.press("]")
        area = screen.query_one("JobText")
        area.load_text(JOB)
        await until_planned(screen, pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert screen.tab == "form"
        assert screen.draft.preview.plan is not None
        assert value(screen, "gpus") == "8"


async def test_a_long_text_is_left_to_an_editor(open_app: Any, backend: FakeBackend) -> None:
    """Above 1,000 lines the text is only shown."""
    backend.job_texts["llm-pretrain"] = JOB + "# more\n" * 1001
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("]")
        await pilot.pause()
        assert screen.query_one("JobText").read_only
        assert "$EDITOR" in screen_text(app)


async def test_the_editor(open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """e gives the text to $EDITOR and takes what it saved."""
    monkeypatch.setenv("VISUAL", "vim -n")

    async def edit(app: Any, argv: tuple[str, ...]) -> int:
        assert argv[:2] == ("vim", "-n")
        Path(argv[-1]).write_text(JOB.replace("llm-pretrain", "edited"))  # noqa: ASYNC240  # a test
        return 0

    monkeypatch.setattr("distui.tui.terminal.shell.outside", edit)
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("e")
        await until_planned(screen, pilot)
        assert screen.draft.job is not None
        assert screen.draft.job.name == "edited"


async def test_a_browser_edits_the_text_in_the_page(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no terminal for an editor, and the file that it would get is none to be named."""
    monkeypatch.setattr(DistuiApp, "is_web", True)
    async with open_app() as (app, pilot):
        await opened(app, pilot, backend)
        await pilot.press("e")
        await settle(pilot)
        said = "\n".join(str(note.message) for note in app._notifications)
        assert "no terminal for an editor" in said and "] edits the text here" in said and "/distui-" not in said


async def test_commands_unfold_and_are_copied_whole(open_app: Any, backend: FakeBackend) -> None:
    """Folded they show what somebody reads; c copies what can be pasted on the host."""
    async with open_app((200, 50)) as (app, pilot):
        copied: list[str] = []
        app.copy = copied.append
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        view = screen.plan_view
        view.focus()
        view.go("task-0")
        await pilot.pause()
        assert "more flags" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert view.unfolded == {0}
        assert "umask 077" in screen_text(app)
        await pilot.press("c")
        assert copied[0].startswith("mkdir -p -m 700")
        assert "docker run" in copied[0]
        await pilot.press("enter")
        assert view.unfolded == set()


async def test_dry_run_writes_the_plan(
    open_app: Any, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into a file here; nothing is launched."""
    monkeypatch.chdir(tmp_path)
    async with open_app() as (app, pilot):
        await opened(app, pilot, backend)
        await pilot.press("D")
        await settle(pilot)
        assert "docker run" in read(str(tmp_path / "llm-pret-new.plan.txt"))
        assert not [call for call in backend.calls if call[0] == "launch"]


async def test_save(open_app: Any, backend: FakeBackend) -> None:
    """w writes the file; over what somebody else wrote meanwhile only after a question that shows the difference."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        file = screen.draft.path
        screen.draft.set_text(JOB.replace("gpus_per_host: 8", "gpus_per_host: 2"), now=True)
        await pilot.press("w")
        await settle(pilot)
        assert "gpus_per_host: 2" in read(file)
        assert "edited" not in screen_text(app)
        write(file, JOB.replace("gpus_per_host: 8", "gpus_per_host: 16"))
        screen.draft.set_text(JOB, now=True)
        await pilot.press("w")
        await settle(pilot)
        assert "changed by another program" in screen_text(app)
        assert "-gpus_per_host: 16" in screen_text(app)
        await pilot.press("enter")
        await settle(pilot)
        assert "gpus_per_host: 16" in read(file)
        await pilot.press("w")
        await settle(pilot)
        await pilot.press("right", "enter")
        await settle(pilot)
        assert read(file) == JOB


async def test_launch_asks_with_its_targets(open_app: Any, backend: FakeBackend) -> None:
    """Hosts, GPUs, image, command; Cancel has the focus, and cancelling starts nothing."""
    async with open_app() as (app, pilot):
        backend.image_ids = {"node04": ""}
        await opened(app, pilot, backend, marked=("node03", "node04"))
        await pilot.press("P")
        await settle(pilot)
        await settle(pilot)
        await pilot.press("L")
        await settle(pilot)
        text = screen_text(app)
        shot(app, "launch-confirm")
        assert isinstance(app.screen, LaunchConfirm)
        assert app.focused.id == "cancel"
        for words in ("Launch llm-pret-new?", "node[03-04] (2)", "0-7 on", "pytorch:25.01", "train.py",
                      "(pulled if missing)", "missing on node04: pulled there first", "failed 1 check"):  # fmt: skip
            assert words in text
        await pilot.press("enter")
        await pilot.pause()
        assert not [call for call in backend.calls if call[0] == "launch"]


async def test_launch_starts_the_plan_that_was_shown(open_app: Any, backend: FakeBackend) -> None:
    """And opens the run."""
    async with open_app() as (app, pilot):
        runs: list[Any] = []
        app.open_run = runs.append
        await opened(app, pilot, backend, marked=("node03", "node04"))
        await pilot.press("L")
        await pilot.pause()
        await pilot.press("right", "enter")
        await settle(pilot)
        assert ("launch", "llm-pret-new", ("node03", "node04")) in backend.calls
        assert [live.plan.run_id for live in runs] == ["llm-pret-new"]


async def test_what_goes_wrong_at_launch_is_reported(open_app: Any, backend: FakeBackend) -> None:
    """A missing secret is words, and the screen stays."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        backend.error = UsageError("HF_TOKEN is not set", hint="export it")
        await pilot.press("L")
        await pilot.pause()
        await pilot.press("right", "enter")
        await settle(pilot)
        assert app.screen is screen
        assert "HF_TOKEN is not set" in problem_text(app)


@pytest.mark.parametrize("away", [False, True])
async def test_the_question_before_a_launch_takes_no_key(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    """Where one types when it is known who uses the GPUs, or is in another window meanwhile: enter would launch."""
    answered, ask = asyncio.Event(), backend.gpu_users

    async def slowly(plan: RunPlan) -> Any:
        await answered.wait()
        return await ask(plan)

    monkeypatch.setattr(backend, "gpu_users", slowly)
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        await pilot.press("L")
        await settle(pilot)
        screen.form.field("image").focus()
        await pilot.press("enter", "x")
        if away:
            app.post_message(AppBlur())
            await settle(pilot)
        answered.set()
        await settle(pilot)
        assert app.screen is screen
        assert "is not started: L asks again" in problem_text(app)


@pytest.mark.parametrize("where", ["yaml", "field"])
async def test_a_launch_from_the_palette_while_one_types(open_app: Any, backend: FakeBackend, where: str) -> None:
    """The palette is there in a text, too: who chooses it there is asked, and does not type on."""
    async with open_app((160, 50)) as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        if where == "yaml":
            screen.action_show_tab("yaml")
        else:
            screen.form.field("image").focus()
            await pilot.press("enter")
        await settle(pilot)
        await pilot.press("ctrl+p", *"launch")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(app.screen, LaunchConfirm)


async def test_each_start_has_a_name_of_its_own(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the second one from a form that stayed open, and that of a job that has another name by then."""
    monkeypatch.setattr(backend, "run_name", run_name)
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        names = [screen.draft.preview.plan.run_id]
        await pilot.press("L")
        await settle(pilot)
        await pilot.press("tab", "enter")
        await settle(pilot)
        assert not isinstance(app.screen, LaunchScreen)
        await pilot.press("2")
        await settle(pilot)
        assert app.screen is screen
        names.append(screen.draft.preview.plan.run_id)
        screen.draft.set_text(screen.draft.text.replace("llm-pretrain", "llm-tune"))
        await until_planned(screen, pilot)
        names.append(screen.draft.preview.plan.run_id)
    assert len(set(names)) == 3
    assert [name[:-5] for name in names] == ["llm-pretrain", "llm-pretrain", "llm-tune"]


async def test_many_hosts_want_the_name_typed(open_app: Any, backend: FakeBackend) -> None:
    """Above eight hosts Launch waits for the run's name."""
    many = [f"h{i}" for i in range(9)]
    backend.hosts = tuple(Host(name) for name in many)
    backend.inventory = Inventory(backend.hosts)
    backend.answers = {name: facts(name, i + 1) for i, name in enumerate(many)}
    async with open_app() as (app, pilot):
        await opened(app, pilot, backend, marked=tuple(many))
        await pilot.press("L")
        await pilot.pause()
        assert app.screen.query_one("#yes", Button).disabled
        app.screen.query_one(Input).focus()
        await pilot.press(*"llm-pret-new")
        await pilot.pause()
        assert not app.screen.query_one("#yes", Button).disabled


USERS = tuple(GpuUser(host, "GPUs 0, 1 are used by run vit-2b1 of bob@desk (job vit)") for host in ("node03", "node04"))


@pytest.mark.parametrize(("keys", "started"), [(("S",), True), (("right", "enter"), True), (("enter",), False)])
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_gpus_that_others_use_can_only_be_shared(
    open_app: Any, backend: FakeBackend, size: tuple[int, int], keys: tuple[str, ...], started: bool
) -> None:
    """The question says whose they are; Cancel has the focus, S or the other button shares them, nothing else does."""
    backend.users = USERS
    async with open_app(size) as (app, pilot):
        app.open_run = lambda live: None
        await opened(app, pilot, backend, marked=("node03", "node04"))
        await pilot.press("L")
        await settle(pilot)
        text = " ".join(screen_text(app).split())
        shot(app, f"launch-share-{size[0]}")
        assert "Launch llm-pret-new on GPUs that are in use?" in text
        assert "! node[03-04]: GPUs 0, 1 are used by run vit-2b1 of bob@desk (job vit)" in text
        assert [button.id for button in app.screen.query(Button)] == ["cancel", "share"]
        assert app.focused.id == "cancel"
        await pilot.press(*keys)
        await settle(pilot)
        launched = [call for call in backend.calls if call[0] == "launch"]
        assert launched == ([("launch", "llm-pret-new", ("node03", "node04"), "force")] if started else [])


async def test_sharing_on_many_hosts_wants_the_name_typed(open_app: Any, backend: FakeBackend) -> None:
    """S does nothing before."""
    many = [f"h{i}" for i in range(9)]
    backend.hosts = tuple(Host(name) for name in many)
    backend.inventory = Inventory(backend.hosts)
    backend.answers = {name: facts(name, i + 1) for i, name in enumerate(many)}
    backend.users = (GpuUser("h3", "GPU 0 is used by run x of bob@desk (job y)"),)
    async with open_app() as (app, pilot):
        await opened(app, pilot, backend, marked=tuple(many))
        await pilot.press("L")
        await settle(pilot)
        await pilot.press("S")
        await settle(pilot)
        assert isinstance(app.screen, LaunchConfirm)
        assert not [call for call in backend.calls if call[0] == "launch"]


async def test_processes_of_no_run_are_said_in_the_question(open_app: Any, backend: FakeBackend) -> None:
    """They do not keep a run from its GPUs, so they are a warning beside Launch."""
    cards = tuple(gpu(i, owner="/usr/bin/python train.py" if i < 2 else "") for i in range(8))
    backend.answers["node03"] = facts("node03", 3, gpu=Gpus(cards))
    async with open_app() as (app, pilot):
        await opened(app, pilot, backend, marked=("node03",))
        await pilot.press("L")
        await settle(pilot)
        assert "! node03: GPUs 0-1 are used by python, of no run" in " ".join(screen_text(app).split())
        assert [button.id for button in app.screen.query(Button)] == ["cancel", "yes"]


async def test_without_a_plan_nothing_is_launched(open_app: Any, backend: FakeBackend) -> None:
    """L says where the reason is: beside the form, or in a tab of its own."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, job=1)
        await pilot.press("L")
        await settle(pilot)
        assert app.screen is screen
        assert "there is no plan yet: the right side says why" in problem_text(app)
    async with open_app((80, 24)) as (app, pilot):
        await opened(app, pilot, backend, job=1)
        await pilot.press("L")
        await settle(pilot)
        assert "there is no plan yet: the tab Plan says why" in problem_text(app)


async def test_all_that_the_schema_says_of_a_field_stands_below(open_app: Any, backend: FakeBackend) -> None:
    """Also where it takes more rows than that of most fields."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        for key in ("hosts", "launcher", "on_hang"):
            screen.form.field(key).focus()
            await settle(pilot)
            left = " ".join(" ".join(row[:53] for row in screen_text(app).splitlines()).split())
            assert describe(key) in left


async def test_readonly_refuses(open_app: Any, backend: FakeBackend) -> None:
    """Plans can be looked at, nothing can be launched."""
    backend.readonly = True
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("L")
        await settle(pilot)
        assert app.screen is screen
        assert "read-only" in problem_text(app)


async def test_other_jobs_keep_their_edits(open_app: Any, backend: FakeBackend) -> None:
    """The job's row goes through the files; what was edited is there again."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.draft.set_text(JOB + "# mine\n", now=True)
        screen.form.field("job").focus()
        await pilot.press("right")
        await pilot.pause()
        assert screen.crumbs == ("Jobs", "broken.yaml")
        await pilot.press("left")
        await pilot.pause()
        assert screen.draft.text == JOB + "# mine\n"


async def test_unsaved_edits_outlive_the_screen(open_app: Any, backend: FakeBackend) -> None:
    """The list marks the job, opening it again shows the edit, and quitting asks first."""
    async with open_app(start="jobs") as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.draft.set_text(JOB + "# mine\n", now=True)
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert "edited, not saved" in screen_text(app)
        await pilot.press("q")
        await settle(pilot)
        assert "Quit without saving?" in screen_text(app)
        assert "llm-pretrain.yaml" in screen_text(app)
        await pilot.press("enter")
        await settle(pilot)
        assert app.is_running
        again = await opened(app, pilot, backend)
        assert again is not screen
        assert again.draft.text == JOB + "# mine\n"
        await pilot.press("w", "escape")
        await settle(pilot)
        assert "edited" not in screen_text(app)


async def test_a_file_that_was_written_outside_is_read_again(open_app: Any, backend: FakeBackend) -> None:
    """When one comes back to the screen; not where it was edited here."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        write(screen.draft.path, JOB + "# theirs\n")
        app.open_text("x", "y")
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert screen.draft.text == JOB + "# theirs\n"
        screen.draft.set_text(JOB + "# mine\n", now=True)
        write(screen.draft.path, JOB + "# yours\n")
        app.open_text("x", "y")
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert screen.draft.text == JOB + "# mine\n"


async def test_the_plan_says_where_the_image_is(open_app: Any, backend: FakeBackend) -> None:
    """Asked once per host, beside everything else: where it is, where it will be pulled."""
    backend.image_ids = {"node04": ""}
    async with open_app((200, 60)) as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        shot(app, "launch-image")
        text = screen_text(app)
        assert "missing on node04: pulled there first" in text
        assert "present on node03" in text
        assert "1 to pull" in text
        await until_planned(screen, pilot)
        asked = [call for call in backend.calls if call[0] == "images"]
        assert asked == [("images", ("nvcr.io/nvidia/pytorch:25.01-py3",), ("node03", "node04"))]


async def test_another_image_under_the_same_name_is_a_warning(open_app: Any, backend: FakeBackend) -> None:
    """Ranks would run different programs: both ids and what makes them one."""
    backend.image_ids = {"node04": "sha256:" + "cd" * 32}
    async with open_app((200, 60)) as (app, pilot):
        await opened(app, pilot, backend, marked=("node03", "node04"))
        text = screen_text(app)
        assert "the image is not the same everywhere: abababababab on node03, cdcdcdcdcdcd on node04" in text


async def test_a_preflight_is_shown_where_the_plan_is_a_tab(open_app: Any, backend: FakeBackend) -> None:
    """Narrow: P in the form opens the plan, which was not open before, at its end."""
    async with open_app((80, 24)) as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        await pilot.press("P")
        await until(pilot, lambda: screen.tab == "plan")
        await settle(pilot)
        assert "Preflight" in screen_text(app)


@pytest.mark.parametrize("begun", ["form", "yaml"])
async def test_a_preflight_that_comes_while_one_types_takes_no_letter_away(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, begun: str
) -> None:
    """Where the plan is a tab, too: what is typed in the text would be keys there."""
    asked = held(backend, monkeypatch)
    async with open_app((80, 24)) as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        if begun == "form":
            await pilot.press("P")
            await settle(pilot)
        screen.action_show_tab("yaml")
        if begun == "yaml":
            await pilot.press("ctrl+p", *"preflight")
            await settle(pilot)
            await pilot.press("enter")
            await settle(pilot)
        await pilot.press("a")
        asked.set()
        await settle(pilot)
        await pilot.press("L")
        await settle(pilot)
        assert screen.draft.text.startswith("aL")
        assert "the preflight is done" in problem_text(app)


async def test_a_preflight_is_of_the_job_that_it_was_made_for(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pressed twice it is being made until the second one is done; what comes for a job that was left is dropped."""
    asked = held(backend, monkeypatch)
    async with open_app((160, 50)) as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        for _ in range(2):
            await pilot.press("P")
            await settle(pilot)
        screen.draft.show()
        assert screen.draft.preview.checking
        screen.form.field("job").focus()
        await pilot.press("right", "left")
        await until_planned(screen, pilot)
        assert not screen.draft.preview.checking
        asked.set()
        await settle(pilot)
        assert screen.draft.preview.checked is None


def held(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Preflights are not over before this is set."""
    asked, preflight = asyncio.Event(), backend.preflight

    async def waiting(plan: RunPlan) -> Any:
        await asked.wait()
        return await preflight(plan)

    monkeypatch.setattr(backend, "preflight", waiting)
    return asked


async def test_preflight_checks_this_plan(open_app: Any, backend: FakeBackend) -> None:
    """P makes every check of a start on the plan's hosts, shows what it found below the plan, and starts nothing."""
    backend.walls = [("node04", "node03")]
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03", "node04"))
        await pilot.press("P")
        await settle(pilot)
        await settle(pilot)
        shot(app, "launch-preflight")
        text = screen_text(app)
        assert ("preflight", "llm-pret-new") in backend.calls
        assert "Preflight" in text
        assert re.search(r"FAIL +node04 +hosts reach each other: can't", text)
        assert "mlx5_3 is DOWN" in text
        assert "2 of 2 hosts answer" in text
        assert "1 of 2 hosts: not proven, see below" in text
        assert "2 failed" in text
        screen.plan_view.action_first()
        await settle(pilot)
        assert "preflight: 2 failed" in screen_text(app)
        screen.draft.set_text(JOB.replace("gpus_per_host: 8", "gpus_per_host: 4"), now=True)
        await until_planned(screen, pilot)
        screen.plan_view.action_last()
        await settle(pilot)
        assert "the plan has changed since" in screen_text(app)
        assert not [call for call in backend.calls if call[0] == "launch"]


async def test_a_slow_plan_never_shows_an_older_text(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys are taken while a plan is made; only the newest text's plan is shown, whichever ends last."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        gate = threading.Event()
        made = backend.preview

        def slow(job: Any, picks: Any, *, run_id: str) -> Any:
            if job.gpus_per_host == 4:
                gate.wait(60)
            return made(job, picks, run_id=run_id)

        monkeypatch.setattr(backend, "preview", slow)
        screen.draft.set_text(JOB.replace("gpus_per_host: 8", "gpus_per_host: 4"), now=True)
        await pilot.pause()
        screen.draft.set_text(JOB.replace("gpus_per_host: 8", "gpus_per_host: 2"), now=True)
        await screen.draft._fresh.wait()
        gate.set()
        await settle(pilot)
        assert screen.draft.job is not None
        assert screen.draft.job.gpus_per_host == 2
        assert [len(task.gpus) for task in screen.draft.preview.plan.tasks][:1] != [4]


async def test_a_new_job(open_app: Any, backend: FakeBackend) -> None:
    """Without job files there is one to begin with, on the marked hosts; esc at the question is no job."""
    backend.job_texts = {}
    async with open_app(start="jobs") as (app, pilot):
        app.open_launch(None, ("node03",))
        await settle(pilot)
        assert isinstance(app.screen, TemplateChoice)
        await pilot.press("enter")
        await until_planned(app.screen, pilot)
        assert "hosts: node03\n" in app.screen.draft.text
        assert app.screen.draft.preview.plan is not None
        await pilot.press("escape", "n")
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen.crumbs == ("Jobs",)


@pytest.mark.parametrize("template", list(TEMPLATES))
async def test_a_new_job_can_be_started_as_it_is(
    open_app: Any, backend: FakeBackend, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On two hosts that are up, with the image of a job here that is for the same, without one where hosts run
    processes; the form says what it will be."""
    monkeypatch.chdir(backend.folder)
    if template == "torchrun":
        backend.hosts = tuple(replace(host, engine="process") for host in backend.hosts)
        backend.inventory = Inventory(backend.hosts)
    async with open_app(start="jobs") as (app, pilot):
        await pilot.press("n", *["j"] * list(TEMPLATES).index(template), "enter")
        await until_planned(app.screen, pilot)
        draft = app.screen.draft
        assert isinstance(draft.preview.plan, RunPlan), draft.preview
        assert draft.preview.plan.hosts == ("node01", "node02")
        images = {"torchrun": None, "tf": "tensorflow/tensorflow:2.19.0", "tf-ps": "tensorflow/tensorflow:2.19.0"}
        assert draft.preview.plan.image == images.get(template, "nvcr.io/nvidia/pytorch:25.01-py3")
        assert value(app.screen, "launcher") == draft.preview.plan.launcher
        assert not there("new-job.yaml")


async def test_n_is_a_new_job_under_a_new_name(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one of those that are there: w writes a file of its own, and asks where somebody else made it meanwhile."""
    monkeypatch.chdir(backend.folder)
    write("new-job.yaml", "theirs")
    async with open_app(start="jobs") as (app, pilot):
        await pilot.press("n", "enter")
        await settle(pilot)
        await until_planned(app.screen, pilot)
        assert app.screen.crumbs[-1] == "new-job-2.yaml"
        assert "new, not saved" in screen_text(app)
        assert "name: new-job-2\n" in app.screen.draft.text
        await pilot.press("w")
        await settle(pilot)
        assert read("new-job-2.yaml") == app.screen.draft.text
        assert "saved new-job-2.yaml" in problem_text(app)
        app.screen.draft.set_text(app.screen.draft.text + "# more\n", now=True)
        await pilot.press("w")
        await settle(pilot)
        assert isinstance(app.screen, LaunchScreen), "its own file is no reason to ask"
        assert read("new-job-2.yaml").endswith("# more\n")
        await pilot.press("escape", "n", "enter")
        await settle(pilot)
        assert app.screen.crumbs[-1] == "new-job-3.yaml"
        write("new-job-3.yaml", "theirs")
        await pilot.press("w")
        await settle(pilot)
        assert "new-job-3.yaml was changed by another program" in screen_text(app)
        await pilot.press("enter")
        await settle(pilot)
        assert (read("new-job.yaml"), read("new-job-3.yaml"), read("llm-pretrain.yaml")) == ("theirs", "theirs", JOB)


async def test_a_broken_file_is_saved_only_after_a_question(open_app: Any, backend: FakeBackend) -> None:
    """With what is wrong and where; Cancel has the focus and writes nothing; the notice says it again."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.draft.set_text(JOB + "imagee: x\n", now=True)
        for keys, written in ((["enter"], JOB), (["right", "enter"], JOB + "imagee: x\n")):
            await pilot.press("w")
            await settle(pilot)
            assert "Save it?" in screen_text(app) and "line 7: imagee" in screen_text(app)
            assert app.focused.id == "cancel"
            await pilot.press(*keys)
            await settle(pilot)
            assert read(screen.draft.path) == written
        assert re.search(r"saved \S+, with 1 problem: line 7: .*imagee", problem_text(app))
        assert [notice.severity for notice in app._notifications] == ["warning"]


@pytest.mark.parametrize("where", ["form", "field", "yaml"])
async def test_ctrl_s_saves_what_is_seen(open_app: Any, backend: FakeBackend, where: str) -> None:
    """Also the key that was just typed: in a field, which is left with it, and in the text."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        wanted = JOB + "# mine\n"
        if where == "form":
            screen.draft.set_text(wanted, now=True)
        elif where == "field":
            wanted = JOB.replace("25.01-py3", "25.01-py3x")
            screen.form.field("image").focus()
            await pilot.press("enter", "x")
        else:
            await pilot.press("]")
            screen.query_one("JobText").move_cursor(screen.query_one("JobText").document.end)
            await pilot.press(*"# mine", "enter")
        await pilot.press("ctrl+s")
        await settle(pilot)
        await settle(pilot)
        assert read(screen.draft.path) == screen.draft.text == wanted
        assert not screen.form.field("image").typing


async def test_line_ends_and_links_stay(open_app: Any, backend: FakeBackend) -> None:
    """A file from Windows keeps its line ends, a link leads to the file as before."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        real = linked(screen.draft.path, JOB.replace("\n", "\r\n"))
        screen.draft.set_text(JOB.replace("gpus_per_host: 8", "gpus_per_host: 2"), now=True)
        await pilot.press("w")
        await settle(pilot)
        wanted = JOB.replace("gpus_per_host: 8", "gpus_per_host: 2").replace("\n", "\r\n")
        assert real.read_bytes() == wanted.encode()


async def test_what_another_program_changed_is_merged(open_app: Any, backend: FakeBackend) -> None:
    """At other lines than the edit here: into the text, without a question; u takes it back."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        mine = JOB.replace("gpus_per_host: 8", "gpus_per_host: 2")
        both = mine.replace("name: llm-pretrain", "name: llm-pretrain  # theirs")
        screen.draft.set_text(mine, now=True)
        write(screen.draft.path, JOB.replace("name: llm-pretrain", "name: llm-pretrain  # theirs"))
        await pilot.press("w")
        await settle(pilot)
        assert read(screen.draft.path) == screen.draft.text == both
        assert "changed by another program" in problem_text(app)
        await pilot.press("u")
        assert screen.draft.text == mine


async def test_what_another_program_changed_is_seen_while_one_looks(open_app: Any, backend: FakeBackend) -> None:
    """The screen looks from time to time; where both changed one line it says so once, and saving asks."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        write(screen.draft.path, JOB + "# theirs\n")
        screen._look()
        assert screen.draft.text == JOB + "# theirs\n"
        assert screen.draft.text == screen.draft.read_text, "nothing to be saved"
        screen.draft.set_text(JOB + "# mine\n", now=True)
        write(screen.draft.path, JOB + "# yours\n")
        screen._look()
        screen._look()
        await settle(pilot)
        assert problem_text(app).count("where you did") == 1
        assert screen.draft.text == JOB + "# mine\n"


async def test_edits_that_were_kept_never_hide_what_another_program_wrote(open_app: Any, backend: FakeBackend) -> None:
    """The screen was closed meanwhile: opened again it has both."""
    async with open_app(start="jobs") as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.draft.set_text(JOB + "# mine\n", now=True)
        await settle(pilot)
        await pilot.press("escape")
        theirs = JOB.replace("name: llm-pretrain", "name: llm-pretrain  # theirs")
        backend.job_texts["llm-pretrain"] = theirs
        write(screen.draft.path, theirs)
        again = await opened(app, pilot, backend)
        assert again is not screen
        assert again.draft.text == theirs + "# mine\n"
        await pilot.press("w")
        await settle(pilot)
        assert read(again.draft.path) == theirs + "# mine\n"


async def test_a_file_that_cannot_be_read_any_more_is_said_once(open_app: Any, backend: FakeBackend) -> None:
    """However often it is looked at; and once more when it could be read in between."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        path = Path(screen.draft.path)
        seen = []
        for content in (b"\xff", b"\xff", b"\xff", JOB.encode(), b"\xff"):
            written(path, content)
            screen._look()
            await settle(pilot)
            seen.append(problem_text(app).count("is not UTF-8"))
    assert seen == [1, 1, 1, 1, 2]


async def test_nothing_is_merged_under_one_s_hands(open_app: Any, backend: FakeBackend) -> None:
    """While a field is typed in the file may change; it is looked at when that is done."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.form.field("image").focus()
        await pilot.press("enter", "x")
        write(screen.draft.path, JOB + "# theirs\n")
        screen._look()
        assert "# theirs" not in screen.draft.text
        await pilot.press("enter")
        await settle(pilot)
        screen._look()
        assert screen.draft.text == JOB.replace("25.01-py3", "25.01-py3x") + "# theirs\n"


async def test_undo_goes_back_change_by_change(open_app: Any, backend: FakeBackend) -> None:
    """A field that was typed in is one change, a choice is one, and so is all that was done in the YAML tab."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.form.field("image").focus()
        await pilot.press("enter", *"xyz", "enter")
        screen.form.field("fabric").focus()
        await pilot.press("right", "right")
        await pilot.press("]", *"# up", "enter", "escape")

        def seen() -> tuple[bool, str, str]:
            return screen.draft.text.startswith("# up"), value(screen, "fabric"), value(screen, "image")[-3:]

        for wanted in (
            (True, "roce", "xyz"), (False, "roce", "xyz"), (False, "ib", "xyz"), (False, "auto", "xyz"),
            (False, "auto", "py3"),
        ):  # fmt: skip
            await until(pilot, lambda wanted=wanted: seen() == wanted)
            await pilot.press("u")
        await until(pilot, lambda: "nothing has been changed" in problem_text(app))
        assert screen.draft.text == JOB
        assert not app.drafts


async def test_the_way_back_is_kept_when_an_edited_job_is_left(open_app: Any, backend: FakeBackend) -> None:
    """As the edits are, also those of the YAML tab; once they are saved there is nothing to go back to."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.form.field("fabric").focus()
        await pilot.press("right")
        await pilot.press("]", *"# up", "enter")
        await until(pilot, lambda: screen.draft.text.startswith("# up"))
        app.pop_screen()
        await settle(pilot)
        app.push_screen(again := LaunchScreen(next(f for f in backend.jobs() if str(f.path) == screen.draft.path)))
        await settle(pilot)
        await until(pilot, lambda: again.draft.text.startswith("# up"))
        await pilot.press("u")
        await until(pilot, lambda: not again.draft.text.startswith("# up") and value(again, "fabric") == "ib")
        await pilot.press("u")
        await until(pilot, lambda: again.draft.text == JOB)
        assert not app.drafts and not app.past_texts


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("right", "right"), JOB.replace("gpus_per_host: 8", "gpus_per_host: 16")),
        (
            ("right", "right", "right"),
            JOB.replace(
                "gpus_per_host: 8\n",
                "# <<<<<<< yours\ngpus_per_host: 2\n# =======\ngpus_per_host: 16\n# >>>>>>> theirs\n",
            ),
        ),
    ],
    ids=["theirs", "both"],
)
async def test_a_conflict_may_take_theirs_or_keep_both(
    open_app: Any, backend: FakeBackend, keys: tuple[str, ...], text: str
) -> None:
    """Nothing is written by that; u has what was here, and what is saved next is no surprise any more."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        mine = JOB.replace("gpus_per_host: 8", "gpus_per_host: 2")
        theirs = JOB.replace("gpus_per_host: 8", "gpus_per_host: 16")
        screen.draft.set_text(mine, now=True)
        write(screen.draft.path, theirs)
        await pilot.press("w")
        await settle(pilot)
        assert "Take theirs" in screen_text(app) and "Keep both" in screen_text(app)
        await pilot.press(*keys, "enter")
        await until(pilot, lambda: screen.draft.text == text)
        assert read(screen.draft.path) == theirs
        assert (screen.draft.read_text, screen.draft.past[-1]) == (theirs, mine)
        if "# <<<<<<<" in text:
            assert screen.tab == "yaml"
            area = screen.query_one("JobText")
            await until(pilot, lambda: area.text == text)
            assert text.splitlines()[area.cursor_location[0]] == "# <<<<<<< yours"


async def test_the_last_row_says_what_works_while_one_types(open_app: Any, backend: FakeBackend) -> None:
    """In a field and in the text: no key of the form, no chip, no help."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        assert "L  launch" in screen_text(app).splitlines()[-1]
        screen.form.field("image").focus()
        await pilot.press("enter")
        await settle(pilot)
        row = screen_text(app).splitlines()[-1]
        assert row.split("   ")[0].strip() == "enter keep" and "ctrl+s save" in row
        assert not [word for word in ("launch", "help", "preflight", "$EDITOR") if word in row]
        await pilot.press("escape", "]")
        await settle(pilot)
        row = screen_text(app).splitlines()[-1]
        assert "tab complete" in row and "ctrl+s save" in row and "next problem" not in row
        assert not [word for word in ("launch", "help", "preflight", "$EDITOR") if word in row]


async def test_a_plan_that_comes_while_one_types_takes_no_letter_away(open_app: Any, backend: FakeBackend) -> None:
    """It is of a text before the last letters, which are still on their way; a text from elsewhere is shown then."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        pane, typed = screen.query_one(YamlPane), JOB + "on_"
        with pane.area.prevent(TextArea.Changed):
            pane.area.load_text(typed)
        pane._known = typed
        pane.tell(typed)
        screen._show()
        assert (pane.area.text, screen.draft.text) == (typed, JOB)
        await until(pilot, lambda: screen.draft.text == typed)
        screen.draft.set_text(JOB, now=True)
        await until(pilot, lambda: pane.area.text == JOB)


async def test_a_plan_that_comes_while_the_screen_goes_is_dropped(open_app: Any, backend: FakeBackend) -> None:
    """At an exit its parts go one by one."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.query_one("#body").display = False
        await screen.form.remove_children()
        screen._show()
        screen.query_one("#body").remove()


async def test_the_text_is_completed_from_the_schema(open_app: Any, backend: FakeBackend) -> None:
    """What may stand at the cursor is listed with its help; tab takes the best, pressed again the next."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("]")
        area = screen.query_one("JobText")
        area.move_cursor(area.document.end)
        await pilot.press(*"on_")
        await until(pilot, lambda: "When a rank fails: stop the others" in screen_text(app))
        shot(app, "launch-completion")
        await pilot.press("tab")
        await until(pilot, lambda: area.text == JOB + "on_fail: ")
        await pilot.press("tab")
        await until(pilot, lambda: area.text == JOB + "on_hang: ")
        await pilot.press("r", "tab")
        await until(pilot, lambda: area.text == JOB + "on_hang: restart")
        await pilot.press("enter", *"hosts: node0", "tab")
        await until(pilot, lambda: area.text == JOB + "on_hang: restart\nhosts: node01")


async def test_a_field_is_completed_by_what_is_known(open_app: Any, backend: FakeBackend) -> None:
    """Hosts, groups, images; tab takes it, and without a suggestion goes on to the next field."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.form.field("hosts").focus()
        await pilot.press("enter", *"node04,gw")
        await settle(pilot)
        await pilot.press("tab")
        await settle(pilot)
        assert screen.form.field("hosts").value == "node04,gw1"
        await pilot.press("tab")
        await settle(pilot)
        assert not screen.form.field("hosts").typing
        assert screen.form.field("gpus").has_focus
        assert 'hosts: "node04,gw1"\n' in screen.draft.text


async def test_a_host_that_is_named_already_is_not_suggested_again() -> None:
    """Nor one of a range."""
    words = Words()
    words.known = ("node01", "node02", "node03", "@h100")
    assert await words.get_suggestion("node01,node") == "node01,node02"
    assert await words.get_suggestion("node[01-02], node") == "node[01-02], node03"
    assert await words.get_suggestion("node[01-03],node") is None
    assert await words.get_suggestion("node") == "node01"


async def test_wrong_lines_are_marked_and_words_have_colours(open_app: Any, backend: FakeBackend) -> None:
    """The wrong line is another colour from its number on, wherever the cursor is; keys and comments stand out."""
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("]")
        area = screen.query_one("JobText")
        area.load_text(JOB + "launcher: torchrn\n# end\n")
        row = len(JOB.splitlines())
        await until(pilot, lambda: list(area.wrong) == [row])
        palette = app.palette
        styles = {n: [segment.style for segment in area.render_line(n) if segment.text.strip()] for n in range(row + 2)}
        assert styles[row][0].color == palette.wrong.color
        assert any(style.underline for style in styles[row][1:])
        assert styles[0][0].color != palette.wrong.color
        assert any(style.color == palette.accent.color for style in styles[0][1:])
        assert any(style.color == palette.faint.color for style in styles[row + 1][1:])
        assert "torchrun" in screen.draft.preview.problems[0].message.partition("did you mean")[2]
        area.load_text(JOB)
        await until(pilot, lambda: not area.wrong)


async def test_a_choice_that_is_none_says_so(open_app: Any, backend: FakeBackend) -> None:
    """What the text says is seen in the form, too."""
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.draft.set_text(JOB + "launcher: torchrn\n", now=True)
        await until_planned(screen, pilot)
        assert "Launcher        torchrn  ○ env" in screen_text(app)


@pytest.mark.parametrize("place", ["the text", "a field"])
async def test_nothing_in_a_strangers_job_file_steers_the_terminal(
    backend: FakeBackend, open_app: Any, place: str
) -> None:
    """An editor and an input field paint what is there, and textual passes that on: raw in a file that YAML refuses,
    or as YAML reads it.
    """
    steers = "a\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\x9cz\u202e"
    name = next(iter(backend.job_texts))
    if place == "the text":
        backend.job_texts[name] += f"# {steers}\n"
    else:
        backend.job_texts[name] = f"version: 1\nname: j\nimage: img:1\ncommand: {json.dumps(steers)}\n"
    async with open_app(size=(120, 36)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        if place == "the text":
            screen.action_show_tab("yaml")
        else:
            screen.query_one("#field-command", FormField).action_edit()
        await settle(pilot)

        shown = screen_text(app)
        assert "a]52;c;aGk=[2J31mz" in shown
        assert not re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
        if place == "a field":
            assert screen.query_one("#field-command", FormField).query_one(Input).value == steers


async def test_a_comparison_opens_nothing_where_one_is_by_then(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans of hundreds of ranks take a while."""
    goes_on = threading.Event()
    monkeypatch.setattr(launch_screen, "compare", lambda old, new: str(goes_on.wait(60)))
    made = backend.plan("llm-7f3")
    backend.record(made, launching(made, 1.0))
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.action_compare()
        await pilot.pause(0.2)
        app.open_host("node01")
        await pilot.pause(0.2)
        there = app.screen
        goes_on.set()
        await settle(pilot)
        assert app.screen is there
        assert "are compared; d in the launch form shows it" in problem_text(app)
