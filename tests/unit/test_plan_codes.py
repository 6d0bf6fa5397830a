"""Codes of why there is no plan: a closed list, the documented one."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from distui.errors import PlanProblem
from fakehosts.calls import Cli

ROOT = Path(__file__).parents[2]
OF_HOSTS = {"auth", "dns", "refused", "timeout"}
"""Examples in the table of what a host's own error gives."""


def calls(path: Path) -> Iterator[ast.Call]:
    """What makes a problem in one module."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(attr="problem")) | ast.Call(func=ast.Name(id="PlanProblem")):
                yield node


def given() -> set[str]:
    """Every code that the program gives by its name."""
    modules = [p for folder in ("distui", "tui") for p in (ROOT / folder).rglob("*.py")]
    firsts = [call.args[0] for path in modules for call in calls(path)]
    return {first.value for first in firsts if isinstance(first, ast.Constant)}


def table() -> set[str]:
    """The codes of the table in docs/python.md."""
    text = (ROOT / "docs/python.md").read_text().partition("Codes of a `PlanProblem`")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", " ".join(cells)))


def test_every_code_is_documented_and_every_documented_one_is_given() -> None:
    """In the docs' table and in the class; those of hosts are the hosts' errors' own."""
    found = given()
    assert "port_taken" in found
    assert found == table() - OF_HOSTS
    assert found == set(re.findall(r"`(\w+)`", PlanProblem.__doc__ or "")) - {"code"}


def test_a_refused_plan_is_json_with_codes(cli: Cli, demo_home: Path) -> None:
    """On stdout for programs, in words on stderr, and exit 3; without `-o json` the words alone."""
    Path("job.yaml").write_text('version: 1\nname: j\nhosts: ["demo[1-2]"]\ngpus_per_host: 2\ncommand: [train]\n')
    done = cli("plan", "job.yaml", "-o", "json")
    asked = json.loads(done.out)
    assert (done.code, asked["schema"]) == (3, "distui/no-plan/v1")
    assert [(p["code"], p["host"]) for p in asked["problems"]] == [("gpus", "demo1"), ("gpus", "demo2")]
    assert all(p["message"] and p["message"] in done.err for p in asked["problems"])
    words = cli("plan", "job.yaml")
    assert (words.code, words.out, words.err) == (3, "", done.err)
