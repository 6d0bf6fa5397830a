"""The grammar of the command line: help, global options on both sides of the verb, mistakes, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distui.cli.app import VERBS
from distui.cli.crash import report
from distui.config import KEYS
from distui.errors import ExitCode, UsageError


def test_help_names_every_verb_and_exit_code(cli: Any) -> None:
    """`distui --help` fits 80 columns and tells verbs and exit codes."""
    done = cli("--help")

    assert done.code == 0
    assert all(f"\n  {verb}" in done.out for verb in VERBS)
    assert all(code in done.out for code in ("124", "130", "143", "70"))
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(cli: Any, verb: str) -> None:
    """Each verb's help ends 0, fits 80 columns and points to the global options."""
    done = cli(verb, "--help")

    assert done.code == 0
    assert done.out.startswith(f"Usage: distui {verb}")
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("run", "--imge", "x"), "--image"),
        (("run", "--images", "x"), "--image"),
        (("ps", "--image", "x"), ""),
        (("ps", "--timout", "1s"), "--timeout"),
        (("run", "--detatch"), "--detach"),
        (("run", "--xyz"), ""),
    ],
)
def test_an_option_that_is_mistyped_is_told_what_it_may_be(cli: Any, words: tuple[str, ...], meant: str) -> None:
    """The nearest one; that both begin with dashes is no likeness: `--image` was taken for `--timeout`."""
    done = cli(*words)
    assert done.code == 2
    assert done.err.splitlines()[0].partition("'. ")[2] == (f"Did you mean '{meant}'?" if meant else "")


@pytest.mark.parametrize("verb", ["hosts", "image", "job", "config"])
def test_lists_of_commands_are_not_cut_off(cli: Any, verb: str) -> None:
    """Each has its whole sentence in 80 columns."""
    assert "..." not in cli(verb, "--help").out.partition("Commands:")[2]


def test_usage_names_arguments_and_the_words_behind_them(cli: Any) -> None:
    """In its first line, not among the options, where there is nothing to say of them."""
    usage, _, rest = cli("exec", "--help").out.partition("\n")

    assert usage == "Usage: distui exec [OPTIONS] RUN [-- WORD...]"
    assert "\n  RUN\n" not in rest


def test_bare_distui_prints_help_and_fails_off_a_terminal(cli: Any) -> None:
    """Without a verb and a terminal there is nothing to do: help, exit 2."""
    Path("hosts.yaml").write_text("version: 1\nhosts: {n1: {}}\n")
    done = cli()

    assert done.code == 2
    assert "Usage: distui" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prob"], "did you mean 'probe'?"),
        (["config", "sho"], "did you mean 'show'?"),
        (["version", "--jso"], "--json"),
        (["zzzz"], "there is no command 'zzzz'"),
        (["version", "--", "x"], "takes nothing after `--`"),
        (["ps", "--color", "blue"], "'blue' is not one of"),
        (["logs", "r", "--rank", "4-1"], "not a set of ranks"),
        (["run", "job.yaml", "--timeout", "soon"], "not a duration"),
        (["plan"], "no job or command given"),
        (["plan", "-H", "", "--", "true"], "'' names no host; write node01"),
        (["plan", "-H", "n1", "--name", "", "--", "true"], "run name '' is not usable"),
        (["ps", "--state", "bogus"], "'bogus' is not one of 'running'"),
        (["probe", "-H", "n1", "--watch", "0s"], "at least 0.5s"),
        (["run", "-H", "n1", "--diff", "x", "--", "true"], "--diff shows a plan and starts nothing"),
    ],
)
def test_a_mistake_is_one_message_and_exit_2(cli: Any, words: list[str], said: str) -> None:
    """A wrong word is named on stderr, with the nearest right one; stdout stays empty."""
    done = cli(*words)

    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("distui: ")
    assert said in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "run -H n1 --image i python train.py",
            "unexpected extra argument (train.py): the words of a command go after `--`",
        ),
        ("exec r1 --rank 0 ls /", "unexpected extra arguments (ls /): the words of a command go after `--`"),
        ("ssh n1 hostname", "unexpected extra argument (hostname): the words of a command go after `--`"),
        ("exec r1 ls -a", "see: distui exec --help; the words of a command go after `--`"),
        ("logs", "see: distui logs --help; `distui ps -a` lists the runs"),
        ("stop", "see: distui stop --help; `distui ps -a` lists the runs"),
    ],
)
def test_a_slip_of_who_knows_other_tools_tells_what_is_missing(cli: Any, words: str, said: str) -> None:
    """`docker exec`, `kubectl exec` and `ssh` take a command as it stands."""
    done = cli(*words.split())

    assert (done.code, said in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("probe -o jsno", "json"),
        ("probe -o JSON", "json"),
        ("ps --state faild", "failed"),
        ("wait x --for runing", "running"),
        ("ps --color alwas", "always"),
        ("probe --fail-on al", "all"),
        ("run job.yaml --log-to stdot", "stdout"),
        ("tui --view job", "jobs"),
        ("hosts import ansibel x", "ansible"),
        ("hosts export hostfil", "hostfile"),
        ("job new --template comand", "command"),
        ("config allow tokn A b.example", "token"),
        ("schema jobs", "job"),
        ("completion bsh", "bash"),
    ],
)
def test_a_slip_in_one_of_a_few_words_names_the_nearest(cli: Any, words: str, meant: str) -> None:
    """As keys of a job file do; all of them are listed, too."""
    done = cli(*words.split())

    assert done.code == 2
    assert "is not one of '" in done.err
    assert f"; did you mean '{meant}'?" in done.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("list", "ps"),
        ("ls", "ps"),
        ("status", "ps"),
        ("cancel", "stop"),
        ("history", "ps -a"),
        ("sacct", "ps -a"),
        ("delete", "rm"),
        ("describe", "show"),
        ("submit", "run"),
        ("validate", "job validate"),
        ("check", "doctor"),
        ("hosts list", "ls"),
        ("hosts delete", "rm"),
        ("job create", "new"),
        ("help cancel", "stop"),
        ("valdate", "job validate"),
        ("Cancle", "stop"),
        ("lst", "ps"),
        ("statsu", "ps"),
        ("help inspct", "show"),
        ("job cretae", "new"),
        ("hosts delte", "rm"),
    ],
)
def test_verbs_of_other_tools_lead_to_ours(cli: Any, words: str, meant: str) -> None:
    """What docker, kubectl and Slurm call it, with a slip, too, is answered with the verb that does it."""
    done = cli(*words.split())

    assert done.code == 2
    assert f"did you mean '{meant}'?" in done.err


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_without_a_job_it_is_said_how_one_is_made(cli: Any, verb: str) -> None:
    """Not the help of `run`, whatever the verb was."""
    done = cli(verb, "--headless") if verb == "run" else cli(verb)

    assert done.code == 2
    assert "no job or command given: name a job file" in done.err
    assert "`distui job new job.yaml` writes a job that runs as it is" in done.err


def test_a_slip_in_a_verb_of_ours_is_not_taken_for_another_tools() -> None:
    """`config inti` means `init` though `lint` is as near; a word that is like none gets no suggestion."""
    from distui.cli.other_words import suggest

    assert suggest("inti", ["show", "path", "init", "validate"], "config") == "; did you mean 'init'?"
    assert suggest("jbo", VERBS) == "; did you mean 'job'?"
    assert suggest("sp", VERBS) == "; did you mean 'ps'?"
    assert [suggest(word, VERBS) for word in ("foo", "bar", "zzzz")] == ["", "", ""]


def test_every_word_of_another_tool_leads_to_a_verb_there_is(cli: Any) -> None:
    """The table names no verb that is gone, and none of ours as foreign."""
    from distui.cli.other_words import _RUNS

    for word, meant in _RUNS.items():
        assert word not in VERBS
        assert cli("help", *(w for w in meant.split() if not w.startswith("-"))).code == 0


def test_help_is_a_verb(cli: Any) -> None:
    """`distui help VERB` prints what `VERB --help` does, for verbs within verbs, too."""
    assert cli("help").out == cli("--help").out
    assert cli("help", "run").out == cli("run", "--help").out
    assert cli("help", "hosts", "add").out == cli("hosts", "add", "--help").out
    assert "has no commands of its own" in cli("help", "run", "x").err


@pytest.mark.parametrize("words", [["--json", "version"], ["version", "--json"], ["-o", "json", "version"]])
def test_global_options_work_before_and_after_the_verb(cli: Any, words: list[str]) -> None:
    """Where a global option stands makes no difference."""
    assert json.loads(cli(*words).out)["version"]


def test_the_later_of_two_global_options_wins(cli: Any) -> None:
    """A single value given twice: the one nearer to the end counts."""
    assert cli("-o", "json", "version", "-o", "table").out.startswith("distui ")


def test_a_bug_leaves_a_crash_file_without_secrets(cli: Any, home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception is one line and exit 70; the file has the traceback, and no values."""

    def broken(ctx: Any) -> None:
        raise ZeroDivisionError("while holding hunter2-secret")

    monkeypatch.setenv("MY_TOKEN", "hunter2-secret")
    monkeypatch.setattr("distui.cli.settings.settings_of", broken)
    done = cli("version")

    assert done.code == 70
    assert "Traceback" not in done.err
    (crash,) = (home / ".local/state/distui/crashes").iterdir()
    assert str(crash) in done.err
    text = crash.read_text()
    assert "ZeroDivisionError" in text
    assert "hunter2" not in text
    assert crash.stat().st_mode & 0o777 == 0o600


def test_a_bug_without_room_for_a_crash_file_shows_no_secret_either(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traceback goes to stderr, masked in the same way."""

    def broken(ctx: Any) -> None:
        raise ZeroDivisionError("while holding hunter2-secret")

    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("DATABASE", "hunter2-secret")
    monkeypatch.setattr("distui.cli.settings.settings_of", broken)
    done = cli("version")

    assert done.code == 70
    assert "ZeroDivisionError: while holding ***" in done.err
    assert "hunter2" not in done.err


def test_a_bug_without_room_for_a_crash_file_shows_what_was_typed_by_shape(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no value of it in the traceback."""

    def broken(*given: Any) -> int:
        raise ZeroDivisionError("while holding hunter3-typed")

    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("distui.cli.main._call", broken)
    done = cli("run", "--env", "TOKEN=hunter3-typed")

    assert done.code == 70
    assert "command: distui run --env ...\n" in done.err
    assert "ZeroDivisionError: while holding ***" in done.err
    assert "hunter3" not in done.err


def test_a_crash_report_shows_options_but_no_values() -> None:
    """What was typed is told by shape only."""
    text = report(ValueError("x"), ["run", "job.yaml", "-e", "A=longvalue", "--name=n", "--", "python", "s"], {})

    assert "command: distui run ... -e ... --name -- ..." in text
    assert "longvalue" not in text


def test_a_closed_stdout_ends_quietly(fresh_python: Any) -> None:
    """`distui --help | head -0` says nothing about a broken pipe."""
    program = """
import os, subprocess, sys
read, write = os.pipe()
os.close(read)
words = [sys.executable, "-c", "import sys; from distui.cli.main import main; sys.exit(main(['--help']))"]
done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True)
print(done.returncode, repr(done.stderr))
"""
    assert fresh_python(program) == "0 ''\n"


@pytest.mark.parametrize(
    ("ends", "code", "said"),
    [
        ([KeyboardInterrupt(), KeyboardInterrupt()], 130, "distui: interrupted\n"),
        ([UsageError("no such thing"), UsageError("nor this")], 2, "distui: no such thing\n"),
        ([UsageError("no such thing"), ZeroDivisionError()], 70, "a bug in distui"),
        ([BrokenPipeError(), ZeroDivisionError()], 70, "a bug in distui"),
    ],
)
def test_a_group_of_one_kind_ends_as_one_of_them(
    cli: Any, monkeypatch: pytest.MonkeyPatch, ends: list[BaseException], code: int, said: str
) -> None:
    """Tasks side by side end in a group of exceptions; one that holds anything else is a bug."""

    def broken(ctx: Any) -> None:
        raise BaseExceptionGroup("side by side", [BaseExceptionGroup("below", ends[:1]), *ends[1:]])

    monkeypatch.setattr("distui.cli.settings.settings_of", broken)
    done = cli("version")

    assert done.code == code
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(cli: Any, shell: str) -> None:
    """Each shell gets a script that calls distui for the words."""
    assert "_DISTUI_COMPLETE" in cli("completion", shell).out


def test_the_page_about_the_command_line_is_complete() -> None:
    """docs/cli.md names every verb, every exit code and every setting."""
    page = (Path(__file__).resolve().parents[2] / "docs/cli.md").read_text()

    for verb in VERBS:
        assert f"`{verb}" in page or f"distui {verb}" in page or f" `{verb} " in page, verb
    assert all(f"| {int(code)} " in page or f"{int(code)}," in page or f", {int(code)} " in page for code in ExitCode)
    assert all(f"`{key}`" in page for key in KEYS)


@pytest.mark.parametrize(
    ("words", "at", "expected"),
    [
        ("distui p", 1, "probe"),
        ("distui logs r", 2, "run-1"),
        ("distui probe n", 2, "node01"),
        ("distui ps --js", 2, "--json"),
    ],
)
def test_completion_knows_verbs_runs_hosts_and_options(
    cli: Any, home: Path, monkeypatch: pytest.MonkeyPatch, words: str, at: int, expected: str
) -> None:
    """What the shell's script asks is answered from files here, without contacting a host."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  node01: {}\n")
    (home / ".local/state/distui/runs/run-1").mkdir(parents=True)
    for name, value in (("_DISTUI_COMPLETE", "bash_complete"), ("COMP_WORDS", words), ("COMP_CWORD", str(at))):
        monkeypatch.setenv(name, value)
    assert f"plain,{expected}" in cli().out.splitlines()


def test_completion_offers_runs_only(cli: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `doctor` that is killed leaves a folder beside the runs."""
    for name in ("run-1", ".tried-x1"):
        (home / ".local/state/distui/runs" / name).mkdir(parents=True)
    for name, value in (("_DISTUI_COMPLETE", "bash_complete"), ("COMP_WORDS", "distui logs "), ("COMP_CWORD", "2")):
        monkeypatch.setenv(name, value)
    assert cli().out.splitlines() == ["plain,run-1"]
