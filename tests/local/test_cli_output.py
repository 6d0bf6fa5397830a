"""`-o`: what every verb makes of every form of output. It has the form, or says that it has not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from distui.cli.app import build
from distui.config import OUTPUTS

WORDS: dict[str, str] = {
    "tui": "", "serve": "", "probe": "-H n1", "top": "-H n1 --once", "ssh": "n1", "hosts ls": "", "hosts show": "n1",
    "hosts validate": "", "hosts add": "n9", "hosts rm": "n1", "hosts import": "nodeset -", "hosts export": "hostfile",
    "hosts clean": "-y", "image ls": "busybox", "image push": "busybox -y", "doctor": "-H n1", "plan": "job.yaml",
    "run": "job.yaml -y", "demo": "", "ps": "", "show": "r1", "logs": "r1", "exec": "r1 -- true", "attach": "r1",
    "wait": "r1", "why": "r1", "stop": "r1", "kill": "r1", "rm": "r1", "job validate": "job.yaml", "job ls": "",
    "job show": "job.yaml", "metrics": "r1",
    "job new": "", "schema": "job", "config show": "", "config path": "", "config init": "", "config validate": "",
    "config allow": "token NAME example.org", "config allowed": "", "config forget": "token NAME example.org",
    "completion": "bash", "help": "", "version": "",
}  # fmt: skip
"""Words with which each verb does something."""

HAS: dict[str, str] = {
    "probe": "wide json ndjson name", "top": "json ndjson csv", "hosts ls": "json name", "hosts show": "json",
    "hosts validate": "json", "hosts clean": "json", "image ls": "json ndjson", "image push": "json ndjson",
    "doctor": "json ndjson", "plan": "json ndjson", "run": "json ndjson", "demo": "json ndjson",
    "ps": "json ndjson name",
    "show": "json", "attach": "json ndjson", "wait": "json ndjson", "why": "json", "metrics": "json csv",
    "stop": "json ndjson", "kill": "json ndjson",
    "job validate": "json", "job ls": "json name", "job show": "json", "schema": "json", "config show": "json",
    "config path": "json", "config allowed": "json", "version": "json",
}  # fmt: skip
"""The forms each verb has beside the table."""


def _verbs(command: click.Command, name: str = "") -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield name
        return
    ctx = click.Context(command)
    for sub in command.list_commands(ctx):
        found = command.get_command(ctx, sub)
        assert found is not None
        yield from _verbs(found, f"{name} {sub}".strip())


def test_the_table_has_every_verb() -> None:
    """A new verb says what it can print."""
    assert set(_verbs(build())) == set(WORDS)


@pytest.fixture
def lab(fake_hosts: Callable[..., Any], home: Path) -> None:
    """An inventory and a job; every host refuses connections."""
    fake_hosts()
    Path("hosts.yaml").write_text("version: 1\nhosts: {n1: {}}\n")
    Path("job.yaml").write_text("version: 1\nname: j\nimage: busybox\nhosts: n1\nranks: {per_host: 1}\ncommand: [a]\n")


REFUSED = [(v, o) for v in WORDS for o in OUTPUTS if o != "table" and o not in HAS.get(v, "").split()]


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(("verb", "output"), REFUSED)
def test_a_form_that_a_verb_has_not_is_refused(cli: Any, verb: str, output: str) -> None:
    """Before anything is done, on either side of the verb; nothing is silently printed as something else."""
    words = WORDS[verb].split()
    for call in ([*verb.split(), "-o", output, *words], ["-o", output, *verb.split(), *words]):
        done = cli(*call)

        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"distui: `distui {verb}` has no output -o {output}\n  try: ")


LOCAL = [
    "hosts ls", "hosts show", "hosts validate", "hosts clean", "job validate", "job ls", "job show", "schema",
    "config show", "config path", "config allowed", "version", "ps", "probe", "doctor", "image ls", "top",
]  # fmt: skip


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("verb", LOCAL)
def test_json_is_one_value_and_ndjson_one_a_line(cli: Any, verb: str) -> None:
    """Also when no host answers: what is known of them is data."""
    for output in {"json", "ndjson"} & set(HAS[verb].split()):
        done = cli(*verb.split(), *WORDS[verb].split(), "-o", output)
        values = [done.out] if output == "json" else done.out.splitlines()

        assert all(isinstance(json.loads(v), dict) for v in values)
        assert values or verb == "ps"  # there is no run


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("verb", [v for v in LOCAL if "name" in HAS[v].split()])
def test_names_are_one_a_line(cli: Any, verb: str) -> None:
    """For `xargs`; a host that does not answer is no name of `probe`."""
    expected = {"hosts ls": "n1\n", "job ls": "j", "probe": "", "ps": ""}[verb]
    assert cli(*verb.split(), "-o", "name").out.strip() == expected.strip()


@pytest.mark.usefixtures("lab")
def test_the_settings_output_holds_for_verbs_that_have_it(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable is no wish for this one call: verbs without the form print what they always do."""
    monkeypatch.setenv("DISTUI_OUTPUT", "json")
    assert json.loads(cli("version").out)
    assert cli("hosts", "export", "hostfile").out == "n1\n"


def test_bare_distui_has_no_output(cli: Any) -> None:
    """There is no verb whose output it could be."""
    done = cli("-o", "json")
    assert done.code == 2
    assert "`distui` has no output -o json" in done.err


def test_what_the_terminal_s_encoding_does_not_have_is_no_error(fresh_python: Callable[[str], str], home: Path) -> None:
    """A folder whose name is no text, a sign beyond ASCII: `?`, in tables and in JSON."""
    runs = home / ".local/state/distui/runs"
    for name in ("r\udcff", "é"):
        (runs / name).mkdir(parents=True)
    start = "import sys; from distui.cli.main import main; sys.stdout.reconfigure(encoding='ascii', errors='strict')"
    for form in ("table", "json", "ndjson", "name"):
        said = fresh_python(f"{start}; print(main(['ps', '-a', '-o', '{form}']))")
        assert said.endswith("0\n"), said
        assert "?" in said


def test_under_lang_c_a_name_that_is_no_text_comes_out_to_the_byte(home: Path) -> None:
    """What reads it finds the folder. A sign beyond ASCII where nothing else can be shown is `?`, and no error."""
    for name in (b"r\xff", "é".encode()):
        (home / ".local/state/distui/runs" / os.fsdecode(name)).mkdir(parents=True)
    plain = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]), "LANG": "C"}
    ascii_only = plain | {"PYTHONIOENCODING": "ascii:surrogateescape"}
    for environ, accented in ((plain, "é".encode()), (ascii_only, b"?")):
        argv = [sys.executable, "-m", "distui.cli.main", "ps", "-a", "-o", "name"]
        done = subprocess.run(argv, capture_output=True, env=environ, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert sorted(done.stdout.split()) == sorted([b"r\xff", accented])
