"""Settings: which source wins, where values come from, and bad ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui import config
from distui.cli.app import build
from distui.errors import SpecError, UsageError


def test_folders_follow_xdg() -> None:
    """XDG variables win over HOME; relative ones are ignored, as the specification says."""
    found = config.paths({"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "relative"})

    assert found.runs == Path("/s/distui/runs")
    assert found.config_file == Path("/h/.config/distui/config.yaml")
    assert found.facts_file == Path("/h/.cache/distui/facts.json")


def test_nearer_sources_win(tmp_path: Path) -> None:
    """flags > DISTUI_* > ./distui.yaml > the user's config.yaml > default, each value with its origin."""
    environ = {"HOME": str(tmp_path), "DISTUI_PARALLEL": "4"}
    user = tmp_path / ".config/distui/config.yaml"
    user.parent.mkdir(parents=True)
    user.write_text("parallel: 1\ncolor: never\nyes: true\ntimeout: 5m\n")
    (tmp_path / "distui.yaml").write_text("color: always\nparallel: 2\n")

    found = config.load({"yes": False}, environ, tmp_path)

    assert (found["parallel"].value, found["parallel"].origin) == (4, "DISTUI_PARALLEL")
    assert (found["color"].value, found["color"].origin) == ("always", "./distui.yaml:1")
    assert (found["yes"].value, found["yes"].origin) == (False, "--yes")
    assert found["timeout"].value == 300.0
    assert found["output"] == config.Value("table", "default")


def test_a_config_file_s_problems_come_all_at_once(tmp_path: Path) -> None:
    """Unknown keys with the nearest one, and bad values, each with its line."""
    (tmp_path / "distui.yaml").write_text("colour: never\noutput: xml\nparallel: [1]\n")

    with pytest.raises(SpecError) as caught:
        config.load({}, {"HOME": str(tmp_path)}, tmp_path)

    assert [p.line for p in caught.value.problems] == [1, 2, 3]
    assert "did you mean 'color'" in caught.value.problems[0].message


def test_hosts_file_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    """A config file can be used from any folder."""
    (tmp_path / "c.yaml").write_text("hosts_file: lab/hosts.yaml\n")

    found = config.load({}, {"HOME": str(tmp_path)}, Path("/"), str(tmp_path / "c.yaml"))

    assert found["hosts_file"].value == str(tmp_path / "lab/hosts.yaml")


def test_a_bad_variable_is_named(tmp_path: Path) -> None:
    """A DISTUI_* variable that can't be read is an error that names it."""
    with pytest.raises(UsageError, match="DISTUI_PARALLEL"):
        config.load({}, {"HOME": str(tmp_path), "DISTUI_PARALLEL": "many"}, tmp_path)


def test_a_slip_in_a_setting_of_a_few_words_names_the_nearest(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file and in a variable, as on the command line."""
    Path("distui.yaml").write_text("output: jsno\ncolor: NEVER\n")
    done = cli("config", "show")
    assert done.code == 2
    assert "'jsno' is none of table, wide, json, ndjson, csv, name; did you mean 'json'?" in done.err
    assert "'NEVER' is none of auto, always, never; did you mean 'never'?" in done.err
    Path("distui.yaml").unlink()
    monkeypatch.setenv("DISTUI_OUTPUT", "jsno")
    assert "DISTUI_OUTPUT: 'jsno' is none of" in (said := cli("config", "show").err)
    assert "; did you mean 'json'?" in said


@pytest.mark.parametrize(
    ("text", "value"),
    [("30s", 30), ("1h30m", 5400), ("1h 30m", 5400), ("500ms", 0.5), ("90", 90), ("2d", 172800), ("1.5s", 1.5)],
)
def test_durations(text: str, value: float) -> None:
    """Durations are seconds."""
    assert config.seconds(text) == value


@given(st.text(max_size=60))
def test_no_duration_is_a_crash(text: str) -> None:
    """Any text is a number of seconds or a UsageError."""
    try:
        assert config.seconds(text) >= 0
    except UsageError as exc:
        assert "not a duration" in exc.message


def test_config_show_tells_origins(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config show --origin` says where each value comes from."""
    monkeypatch.setenv("DISTUI_COLOR", "never")
    done = cli("config", "show", "--origin", "-y")

    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines()}
    assert rows["color"] == ["never", "DISTUI_COLOR"]
    assert rows["yes"] == ["true", "--yes"]
    assert rows["parallel"][1] == "default"


def test_config_init_writes_a_file_that_changes_nothing(cli: Any, home: Path) -> None:
    """Every key stands in it as a comment; taken out of it, each is a valid setting. An existing file is left alone."""
    assert cli("config", "init").code == 0
    path = home / ".config/distui/config.yaml"
    text = path.read_text()
    assert {key for key in config.KEYS if f"\n# {key}:" in text} == set(config.KEYS)
    assert cli("config", "validate").code == 0
    assert "default" in cli("config", "show", "--origin").out
    path.write_text("color: never\n")
    again = cli("config", "init")
    assert (again.code, path.read_text()) == (2, "color: never\n")
    assert cli("config", "init", "--project").code == 0
    path.write_text("colour: never\n")
    assert "did you mean" in cli("config", "validate").err
    path.unlink()
    Path("other.yaml").write_text("parallel: many\n")
    bad = cli("config", "validate", "other.yaml")
    assert bad.code == 2
    assert "other.yaml:1:11" in bad.err


def test_config_validate_names_keys_that_can_not_be_used(cli: Any, home: Path) -> None:
    """As warnings, of the files that hold or of one that is named; the app would say only the first of them."""
    Path("other.yaml").write_text("keymap: {wrap: w, nothing: f, launch: r}\n")
    done = cli("config", "validate", "other.yaml")
    assert (done.code, "other.yaml: ok, 3 warnings" in done.out + done.err) == (0, True)
    for words in ("there is no action nothing", "launch touches hosts or runs", "keymap: w is why and wrap"):
        assert words in done.err
    (home / ".config/distui").mkdir(parents=True, exist_ok=True)
    (home / ".config/distui/config.yaml").write_text("keymap: {leave: Q}\n")
    fine = cli("config", "validate")
    assert (fine.code, "warning" in fine.out + fine.err) == (0, False)


def test_config_path_lists_places(cli: Any, home: Path) -> None:
    """`config path` names every folder, whether it exists or not."""
    assert str(home / ".local/state/distui/runs") in cli("config", "path").out


WRITES = {
    "run": "-H a --image i -- true",
    "stop": "x",
    "kill": "x",
    "rm": "x",
    "exec": "x -- true",
    "ssh": "h",
    "demo": "",
    "image push": "img",
    "hosts clean": "",
    "hosts add": "h9",
    "hosts rm": "h1",
    "hosts import": "nodeset n[1-2] --write",
    "job new": "new.yaml",
    "config init": "",
    "config allow": "token A b.example",
    "config forget": "token A b.example",
}
"""Verbs that change a host, a run or a file that the person wrote, each with words that it takes."""
READS = frozenset(
    [
        "tui",
        "serve",
        "probe",
        "top",
        "image ls",
        "doctor",
        "plan",
        "ps",
        "show",
        "logs",
        "attach",
        "wait",
        "why",
        "metrics",
    ]
    + ["schema", "completion", "help", "version", *(f"hosts {word}" for word in ("export", "ls", "show", "validate"))]
    + [f"job {word}" for word in ("ls", "show", "validate")]
    + [f"config {word}" for word in ("allowed", "path", "show", "validate")]
)
"""What only looks, `attach` and `wait` with --readonly. `doctor --smoke` is refused."""


def verbs(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from verbs(found, (*path, name))


def test_every_verb_is_known_to_read_or_to_write() -> None:
    """A new verb has to be put on one side."""
    assert set(verbs(build())) == set(WRITES) | READS


@pytest.mark.parametrize("verb", WRITES)
def test_readonly_refuses_what_changes_something(cli: Any, verb: str) -> None:
    """Before anything is contacted or written."""
    Path("hosts.yaml").write_text("version: 1\nhosts: {h1: {}}\n")
    before = sorted(Path.cwd().rglob("*"))
    done = cli("--readonly", *verb.split(), *WRITES[verb].split())
    assert done.code == 2
    assert "read-only by --readonly" in done.err
    assert Path("hosts.yaml").read_text() == "version: 1\nhosts: {h1: {}}\n"
    assert sorted(Path.cwd().rglob("*")) == before
