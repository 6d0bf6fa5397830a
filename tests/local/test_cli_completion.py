"""What a shell is told while a command is typed: names that are there, as words that are only words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = ["x$(touch PWNED)", "x;touch PWNED", "x`touch PWNED`", "x PWNED", "x'", 'x"', "x*", "x\nPWNED", "x\x1b[31m"]
SCRIPT = """
compopt() { :; }
eval "$(distui completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_distui_completion distui
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    """A folder with an inventory and jobs, of which some are called what would run a program."""
    (tmp_path / "jobs").mkdir()
    for name in ["xray", *HOSTILE]:
        (tmp_path / "jobs" / f"{name}.yaml").write_text("version: 1\n")
    (tmp_path / "xfile").touch()
    (tmp_path / "hosts.yaml").write_text("version: 1\nhosts:\n  node01: {}\n")
    program = "import sys\nfrom distui.cli.process import program\nsys.exit(program())\n"
    (tmp_path / "distui").write_text(f"#!{sys.executable}\n{program}")
    (tmp_path / "distui").chmod(0o755)
    return tmp_path


def in_bash(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What bash offers for the last of the words."""
    own = {"HOME": str(folder), "PYTHONPATH": str(ROOT)}
    env = {**os.environ, **own, "PATH": f"{folder}:{os.environ['PATH']}"}
    argv = ["bash", "--norc", "-c", SCRIPT, "bash", *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=folder, env=env, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("distui", "run", "x"), "xray"),  # no job whose name is more than a word, and no file of this folder
        (("distui", "probe", "n"), "node01"),
        (("distui", "probe", "node01,n"), "node01,node01"),
        (("distui", "probe", "-H", "n"), "node01"),
    ],
)
def test_bash_offers_names_and_nothing_that_would_run(typed: Path, words: tuple[str, ...], offered: str) -> None:
    """Jobs by name as docs/cli.md has it; click's script puts what it is told on the command line as it is."""
    done = in_bash(typed, *words)
    assert (done.stdout, done.stderr) == (f"{offered}\n", "")


@pytest.mark.parametrize("words", [("nosuch", ""), ("probe", "--", ""), ("run", "'half"), ("-o", "x", "")])
def test_a_word_that_is_being_typed_is_no_mistake(typed: Path, words: tuple[str, ...]) -> None:
    """Nothing is printed between the letters, also where the inventory can't be read."""
    (typed / "hosts.yaml").write_text("hosts: [")
    assert in_bash(typed, "distui", *words).stderr == ""
