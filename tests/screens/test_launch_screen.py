"""The launch screen: the form writes the file, the plan follows, nothing starts without an answer."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from fakes import JOB, FakeBackend, facts, gpu, screen_text, settle, shot
from textual.widgets import Button, Input

from distui.errors import UsageError
from distui.facts.host import Gpus
from distui.plan.model import RunPlan
from distui.runs.launch.gpu_users import GpuUser
from distui.spec.hosts.inventory import Host, Inventory
from distui.tui.launch.form_confirm import LaunchConfirm
from distui.tui.launch.screen import LaunchScreen


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


@pytest.mark.parametrize(("name", "typed"), [("gpus", "x"), ("image", "L"), ("hosts", "[")])
async def test_esc_undoes_what_was_typed_in_field_and_text(
    open_app: Any, backend: FakeBackend, name: str, typed: str
) -> None:
    """Both say what they said before, whether what was typed could be read or not; the marks are back, too."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03",))
        before = value(screen, name)
        screen.form.field(name).focus()
        await pilot.press("enter", *typed)
        await until_planned(screen, pilot)
        assert screen.draft.text != JOB
        await pilot.press("escape")
        await until_planned(screen, pilot)
        assert screen.draft.text == JOB
        assert value(screen, name) == before
        assert screen.draft.marked == ("node03",)
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


async def test_a_file_that_never_was_a_job_is_shown_as_it_is_written(open_app: Any, backend: FakeBackend) -> None:
    """Its fields are those of the text, and a change of one reaches the text; while it is no YAML none can."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, job=1)
        assert value(screen, "command") == "python"
        screen.form.field("command").focus()
        await pilot.press("enter", *" x.py", "enter")
        await until_planned(screen, pilot)
        assert "command: [python, x.py]" in screen.draft.text
        assert value(screen, "command") == "python x.py"
        screen.draft.set_text("a: [", now=True)
        await until_planned(screen, pilot)
        assert value(screen, "command") == ""
        screen.form.field("command").focus()
        await pilot.press("enter", "x", "enter")
        await until_planned(screen, pilot)
        assert (screen.draft.text, value(screen, "command")) == ("a: [", "")
        assert "can't change this text" in problem_text(app)


async def test_typing_hosts_forgets_the_marks(open_app: Any, backend: FakeBackend) -> None:
    """What is typed holds; what was marked holds as long as nothing is typed."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, marked=("node03",))
        assert value(screen, "hosts") == "node03"
        screen.form.field("hosts").focus()
        await pilot.press("enter", "enter")
        assert screen.draft.marked == ("node03",)
        await pilot.press("enter", *["backspace"] * 6, *"gw1", "enter")
        await until_planned(screen, pilot)
        assert screen.draft.marked == ()
        assert "hosts: gw1\n" in screen.draft.text


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
        write(file, JOB + "# theirs\n")
        screen.draft.set_text(JOB, now=True)
        await pilot.press("w")
        await settle(pilot)
        assert "changed by somebody else" in screen_text(app)
        assert "-# theirs" in screen_text(app)
        await pilot.press("enter")
        await settle(pilot)
        assert "# theirs" in read(file)
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
                      "missing on node04: pulled there first", "failed 1 checks"):  # fmt: skip
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


async def test_what_goes_wrong_at_launch_is_told(open_app: Any, backend: FakeBackend) -> None:
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
    """L says where the reason is."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend, job=1)
        await pilot.press("L")
        await settle(pilot)
        assert app.screen is screen
        assert "there is no plan yet" in problem_text(app)


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
    """When one comes back to the screen; not when it was edited here."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        write(screen.draft.path, JOB + "# theirs\n")
        app.open_text("x", "y")
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert screen.draft.text == JOB + "# theirs\n"
        screen.draft.set_text(JOB + "# mine\n", now=True)
        write(screen.draft.path, JOB)
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
                gate.wait(10)
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
    """Without job files there is one to begin with."""
    backend.job_texts = {}
    async with open_app() as (app, pilot):
        app.open_launch(None, ("node03",))
        await until_planned(app.screen, pilot)
        assert value(app.screen, "command") == "python train.py"
        assert app.screen.draft.preview.plan is not None


async def test_n_is_a_new_job_under_a_new_name(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one of those that are there: w writes a file of its own, and asks where somebody else made it meanwhile."""
    monkeypatch.chdir(backend.folder)
    write("new-job.yaml", "theirs")
    async with open_app(start="jobs") as (app, pilot):
        await pilot.press("n")
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
        await pilot.press("escape", "n")
        await settle(pilot)
        assert app.screen.crumbs[-1] == "new-job-3.yaml"
        write("new-job-3.yaml", "theirs")
        await pilot.press("w")
        await settle(pilot)
        assert "new-job-3.yaml was changed by somebody else" in screen_text(app)
        await pilot.press("enter")
        await settle(pilot)
        assert (read("new-job.yaml"), read("new-job-3.yaml"), read("llm-pretrain.yaml")) == ("theirs", "theirs", JOB)


async def test_a_broken_file_is_not_just_saved(open_app: Any, backend: FakeBackend) -> None:
    """It is written, since it may be mended later, and the notice says how many problems it has, and which."""
    async with open_app() as (app, pilot):
        screen = await opened(app, pilot, backend)
        screen.draft.set_text(JOB + "imagee: x\n", now=True)
        await pilot.press("w")
        while not problem_text(app):
            await settle(pilot)
        assert read(screen.draft.path) == JOB + "imagee: x\n"
        assert re.search(r"saved \S+, with 1 problem: line 7: .*imagee", problem_text(app))
        assert [notice.severity for notice in app._notifications] == ["warning"]
