"""What hosts and files of others say is shown on the command line, and steers no terminal."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from distui.cli import console as consoles
from distui.cli.console import Console, as_json
from distui.cli.main import main
from distui.cli.printing import words
from distui.cli.printing.csv_rows import csv_text
from distui.cli.printing.printer import LineWriter, LogView
from distui.cluster.hosts import connecting
from distui.errors import ExitCode, HostCommandError, HostUnreachable
from distui.runs.hosts import asking
from distui.runs.lines.events import HostChanged, LogLine, Notice
from distui.session import Completed
from fakehosts.hosts import FakeConnector, FakeHost, FakeSession, verb_of
from fakehosts.runs import plan_for

STEERS = "boom\x1b]52;c;aGk=\x07\x1b[2J\x1b[1;1Hon top\x9b31m\x90q\x9c\x1bc\x08\x7f\rover it"
"""The clipboard written, the screen emptied, the cursor moved; C1, a reset, characters taken back."""
OWN = re.compile(r"\x1b\[(?:0|[1-3][0-9]?)(?:;[1-3][0-9]?)*m")
"""distui's own colours."""
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

HOST_WORDS = {
    "ps": ("ps", "-a"),
    "ps as names": ("ps", "-a", "-o", "name"),
    "ps -v": ("ps", "-v"),
    "show": ("show", "r1"),
    "attach": ("attach", "r1", "--timeout", "1s"),
    "wait": ("wait", "r1", "--timeout", "1s"),
    "logs": ("logs", "r1"),
    "logs --timestamps": ("logs", "r1", "--timestamps"),
    "why": ("why", "r1"),
    "stop": ("stop", "r1", "-y", "--timeout", "1s"),
    "kill": ("kill", "r1", "-y", "--timeout", "1s"),
    "rm": ("rm", "r1", "-y"),
    "rm --purge": ("rm", "r1", "--purge", "-y"),
    "exec": ("exec", "r1", "--rank", "0", "--", "true"),
    "probe": ("probe",),
    "doctor": ("doctor",),
    "doctor --smoke": ("doctor", "--smoke", "--job", "j.yaml", "-y"),
    "hosts clean": ("hosts", "clean", "-y"),
    "image ls": ("image", "ls", "img:1"),
    "image push": ("image", "push", "img:1", "--from", "h1", "-y"),
    "top": ("top", "--once"),
    "plan": ("plan", "-H", "h[1-2]", "--image", "img:1", "--", "true"),
    "run": ("run", "-H", "h[1-2]", "-y", "-d", "--image", "img:1", "--", "true"),
}
"""Every verb that asks hosts, with words for it."""


class Saying(FakeSession):
    """A session of which every answer steers: `says` has what a command does (`fails`, `answers`), or has a run
    that is there, with labels that steer, and fails at everything else (`has a run`).
    """

    def __init__(self, host: FakeHost, says: str) -> None:
        super().__init__(host)
        self._says = says

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        """See Session."""
        if self._says == "has a run" and verb_of(argv) in ("ps", "inspect", "home"):
            return await super().run(argv)
        return self._said(argv)

    async def run_script(self, script: str, **_: Any) -> Completed:
        """See Session."""
        return self._said(("sh",))

    async def open(self, argv: Sequence[str], **_: Any) -> Any:
        """See Session."""
        raise HostCommandError(self.host, f"{self.host}: {STEERS}", hint=STEERS, code="refused")

    async def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """See Session."""
        raise HostCommandError(self.host, f"{self.host}: {STEERS}", hint=STEERS, code="refused")

    def _said(self, argv: Sequence[str]) -> Completed:
        status = 0 if self._says == "answers" else 1
        return Completed(tuple(argv), status, STEERS.encode(), STEERS.encode())


class Hosts(FakeConnector):
    """Two hosts that say such words; `down` ones say them instead of letting anybody in."""

    def __init__(self, says: str, labels: Mapping[str, str] | None = None) -> None:
        super().__init__(FakeHost("h1"), FakeHost("h2"))
        self.says, self.labels = says, labels or {}
        for host, task in zip(self.hosts.values(), plan_for("h1", "h2").tasks, strict=True):
            host.files[task.env_file] = b""
            assert host.engine.run(task.start).ok
            labels = host.containers[0].labels
            labels |= dict.fromkeys(("distui.name", "distui.owner", "distui.job"), STEERS)
            labels |= self.labels

    async def connect(self, host: str) -> Any:
        """See Connector."""
        if self.says == "is down":
            raise HostUnreachable(host, f"{host}: {STEERS}", hint=STEERS, code="refused")
        return Saying(self.hosts[host], self.says)


@pytest.fixture
def shown(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls distui with hosts that say such words; gives all that it printed."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  h[1-2]: {}\n")
    Path("j.yaml").write_text("version: 1\nname: j\nimage: img:1\ncommand: [x]\n")
    monkeypatch.setattr(asking, "PAUSES", (0.0,))

    def call(says: str, *argv: str) -> str:
        monkeypatch.setattr(connecting, "make_connector", lambda settings, hosts: Hosts(says))
        capfd.readouterr()
        code = main(argv)
        out, err = capfd.readouterr()
        assert code != ExitCode.BUG, err
        return out + err

    return call


@pytest.mark.parametrize("says", ["is down", "fails", "answers", "has a run"])
@pytest.mark.parametrize("verb", HOST_WORDS)
def test_no_word_of_a_host_steers_the_terminal(shown: Callable[..., str], verb: str, says: str) -> None:
    """Whatever it answers, in every verb; distui's own colours stay."""
    printed = shown(says, "--color", "always", *HOST_WORDS[verb])
    assert not STEERING.findall(OWN.sub("", printed)), ascii(printed)
    if says == "is down" and verb not in ("ps as names", "rm"):
        assert "boom" in printed


@pytest.mark.parametrize("label", ["distui.job", "distui.owner"])
def test_no_label_makes_a_line_of_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], label: str
) -> None:
    """Whoever may start containers writes labels: nothing in them looks like another run, or another word of ours."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  h[1-2]: {}\n")
    forged = {"distui.job": "j", "distui.owner": "o", label: "x\nr2    forged  succeeded"}
    monkeypatch.setattr(connecting, "make_connector", lambda settings, hosts: Hosts("has a run", forged))
    for verb in (("ps", "-a"), ("show", "r1")):
        assert main(verb) == ExitCode.OK
        said = capfd.readouterr().out
        assert not any(line.startswith("r2") for line in said.splitlines()), said
        assert "forged" in said or (verb[0], label) == ("ps", "distui.owner")
    main(("stop", "r1"))
    said = capfd.readouterr().err
    assert "forged" in said or label == "distui.job"
    assert not any(line.startswith("r2") for line in said.splitlines()), said


@pytest.mark.parametrize(
    ("verb", "form"),
    [
        *(
            (verb, "json")
            for verb in ("ps", "attach", "wait", "probe", "doctor", "hosts clean", "image ls", "run", "top")
        ),
        *((verb, "ndjson") for verb in ("ps", "attach", "wait", "probe", "run", "top")),
    ],
)
def test_no_value_of_a_host_steers_the_terminal(shown: Callable[..., str], verb: str, form: str) -> None:
    """JSON itself leaves C1 as it is."""
    printed = shown("is down", "-o", form, *HOST_WORDS[verb])
    assert "boom" in printed
    assert not STEERING.findall(printed), ascii(printed)


def test_json_says_what_was_said() -> None:
    """The value is the same, and letters of all languages stay as they are."""
    value = {STEERS: [STEERS, "B\xfcro \U0001f600 \u200d", 1.5, None]}
    for text in (as_json(value), as_json(value, indent=2), as_json(value, compact=True)):
        assert json.loads(text) == value
        assert "B\xfcro \U0001f600 \u200d" in text
        assert not STEERING.findall(text)


def test_what_is_said_is_cleaned_before_it_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whichever way; lines stay lines, and what was before a carriage return stays in sight."""
    err = io.StringIO()
    out = Console(io.StringIO(), err, out_colour=True, err_colour=True, width=0)
    out.warn(f"first\r\n{STEERS}", "red bold")
    out.say(STEERS)
    out.tell(STEERS, "warning")
    for text, style in words.of_batch([HostChanged(1.0, "h1", "lost", STEERS), Notice(1.0, "warning", STEERS)]):
        out.warn(text, style)
    settings: Any = {"yes": False, "no_input": False}
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert not consoles.confirm(out, settings, STEERS)

    assert err.getvalue().startswith("\x1b[31;1mfirst\nboom")
    assert "\ufffdover it\x1b[0m\n" in err.getvalue()
    assert not STEERING.findall(OWN.sub("", err.getvalue())), ascii(err.getvalue())


@pytest.mark.parametrize("colour", [True, False])
def test_no_name_nor_stamp_in_front_of_a_line_steers_the_terminal(colour: bool) -> None:
    """Both are a host's words, and none of them is more than one line."""
    writer = LineWriter(LogView(timestamps=True), colour=colour)
    writer.open({0: "h1", 1: f"h2{STEERS}"}, {0: f"chief\n{STEERS}"})
    shown = b"".join(writer.bytes(rank, STEERS, [LogLine("stdout", "x", STEERS)]) for rank in (0, 1)).decode()

    hues = re.sub(r"\x1b\[38;5;[0-9]+m|\x1b\[0m", "", shown) if colour else shown
    assert shown.count("\n") == 2
    assert not STEERING.findall(hues), ascii(shown)


def test_no_file_of_a_clone_steers_the_terminal(cli: Any) -> None:
    """Its name, what is wrong in it, and the settings that ./distui.yaml may not have."""
    Path("jobs").mkdir()
    Path("jobs/a\x1b[2J\x9b.yaml").write_text("version: 1\nname: j\ncommand: [x]\nimage: 'a'\n")
    Path("jobs/b.yaml").write_text('version: 1\nname: "j\\e[2J"\ncommand: [x]\nimage: "a\\e[2J\\x9b"\n"k\\e[2J": 1\n')
    Path("distui.yaml").write_text("yes: true\n")
    Path("hosts.yaml").write_text('version: 1\nhosts:\n  h1: {labels: {rack: "a\\e]52;c;aGk=\\a\\x9b"}}\n')
    listed = [(*verb, "-o", form) for verb in (("job", "ls"), ("hosts", "ls")) for form in ("table", "json", "name")]
    for verb in (*listed, ("hosts", "show", "h1"), ("hosts", "show", "h1", "-o", "json")):
        done = cli(*verb)
        assert done.code == 0 or verb[0] == "job", done.err
        assert not STEERING.findall(done.out + done.err), ascii(done)


def test_no_cell_of_csv_steers_the_terminal() -> None:
    """A program on a GPU may be of any login of the host, and is called what it likes."""
    reported = csv_text([("host", "name"), ("h1", STEERS), (1, None)])
    names, row, other = csv.reader(io.StringIO(reported))
    assert (names, other) == (["host", "name"], ["1", ""])
    assert row[1].startswith("boom") and row[1].endswith("over it")
    assert not STEERING.findall(reported), ascii(reported)
