"""The trainers as texts, without torch or TensorFlow: each is one program, and says all it can do in README.md."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TRAINERS = Path(__file__).resolve().parents[2] / "trainers"
PROGRAMS = sorted(path for path in TRAINERS.glob("*.py") if path.name != "__init__.py")
README = (TRAINERS / "README.md").read_text("utf-8")
GOOD = '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}'


def functions(path: Path) -> dict[str, str]:
    """The text of each function of a program."""
    text = path.read_text("utf-8")
    parts = [part for part in ast.parse(text).body if isinstance(part, ast.FunctionDef)]
    return {part.name: ast.get_source_segment(text, part) or "" for part in parts}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_program_is_one_file(path: Path) -> None:
    """It imports the standard library and its framework, nothing that would have to be copied along."""
    found = set()
    for part in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(part, ast.Import):
            found |= {name.name.partition(".")[0] for name in part.names}
        elif isinstance(part, ast.ImportFrom):
            assert part.level == 0 and part.module
            found.add(part.module.partition(".")[0])
    own = {"keras", "numpy", "tensorflow"} if path.name.startswith("tf_") else {"torch"}
    assert found - sys.stdlib_module_names == own
    assert path.name in README


@pytest.mark.parametrize(
    ("name", "programs"),
    [
        ("end_on_signal", "*.py"),
        ("count", "*.py"),
        ("positive", "*.py"),
        ("check", "[!b]*.py"),
        ("seed", "[!b]*.py"),
        ("read_idx", "tf_*.py"),
        ("load", "tf_*.py"),
        ("network", "tf_*.py"),
        ("fingerprint", "tf_*.py"),
        ("dataset", "tf_*.py"),
        ("task", "tf_*.py"),
        ("env", "[!t]*.py"),
        ("say", "[!t]*.py"),
        ("read_idx", "[!t]*.py"),
        ("load", "[!t]*.py"),
        ("network", "[!t]*.py"),
        ("fingerprint", "[!t]*.py"),
    ],
)
def test_what_several_programs_do_they_do_alike(name: str, programs: str) -> None:
    """A copy that is mended is mended everywhere."""
    texts = [functions(path).get(name) for path in TRAINERS.glob(programs)]
    found = [text for text in texts if text]
    assert len(found) > 1
    assert len(set(found)) == 1


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_every_argument_is_in_the_readme(path: Path) -> None:
    """And no other is said to be there."""
    flags = set(re.findall(r'add\("(--[a-z-]+)"', path.read_text("utf-8")))
    assert len(flags) >= 8
    assert sorted(flag for flag in flags if f"`{flag}" not in README) == []


def test_the_digits_are_the_set_that_scikit_learn_ships() -> None:
    """The file is the one DATA.md describes, byte for byte."""
    digest = hashlib.sha256((TRAINERS / "digits.csv.gz").read_bytes()).hexdigest()
    assert digest == "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
    assert digest in (TRAINERS / "DATA.md").read_text("utf-8")


def refused(folder: Path, program: str, config: str | None, *args: str) -> str:
    """The last line of a TensorFlow trainer that ends with 2, in a Python where TensorFlow is an empty module."""
    for name in ("tensorflow", "numpy"):
        (folder / f"{name}.py").write_text("")
    (folder / "keras.py").write_text("")
    environ = {name: text for name, text in os.environ.items() if name != "TF_CONFIG"} | {"PYTHONPATH": str(folder)}
    if config is not None:
        environ["TF_CONFIG"] = config
    argv = [sys.executable, str(TRAINERS / program), *args]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "KeyError('TF_CONFIG')"),
        ("{", "JSONDecodeError"),
        ("3", "TypeError"),
        ('{"task": {"type": "worker", "index": 0}}', "KeyError('cluster')"),
        (GOOD.replace('"type": "worker"', '"type": "ps"'), "KeyError('ps')"),
        (GOOD.replace('"index": 1', '"index": 2'), "worker goes from 0 to 1"),
        (GOOD.replace('"index": 1', '"index": null'), "TypeError"),
    ],
)
@pytest.mark.parametrize("program", ["tf_multiworker.py", "tf_parameter_server.py"])
def test_without_a_right_tf_config_it_says_how_it_looks(
    tmp_path: Path, program: str, config: str | None, words: str
) -> None:
    """On the last line, with exit code 2; TensorFlow says it as a KeyError, or waits for ever."""
    said = refused(tmp_path, program, config)
    assert "TF_CONFIG is missing or wrong" in said
    assert words in said
    assert 'it looks like {"cluster": {"worker": ["localhost:12345"]}' in said


def test_a_cluster_must_have_what_the_strategy_needs(tmp_path: Path) -> None:
    """Said at the start, not by a wait for ever."""
    assert "cluster has no chief and no ps: parameter servers need all three" in refused(
        tmp_path, "tf_parameter_server.py", GOOD
    )
    tester = '{"cluster": {"evaluator": ["a:1"]}, "task": {"type": "evaluator", "index": "0"}}'
    assert "the evaluator tests what the chief saves" in refused(tmp_path, "tf_parameter_server.py", tester)
    server = '{"cluster": {"worker": ["a:1"], "ps": ["a:2"]}, "task": {"type": "ps", "index": 0}}'
    assert "ps has no part in this" in refused(tmp_path, "tf_multiworker.py", server)
    assert "argument --epochs: invalid count value: '0'" in refused(tmp_path, "tf_multiworker.py", GOOD, "--epochs=0")
