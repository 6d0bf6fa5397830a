"""What importing the values and the readers costs, seen in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded(statement: str, *modules: str) -> set[str]:
    """Which of `modules` are loaded after `statement`."""
    code = f"import sys; {statement}; print(*(m for m in {modules!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["hosts.inventory", "job.job", "hosts.names", "choose", "job.placeholders"])
def test_values_and_names_load_no_reader(module: str) -> None:
    """`distui --help` and completion must not pay for YAML."""
    assert loaded(f"import distui.spec.{module}", "yaml", "pydantic", "difflib", "asyncssh") == set()


def test_readers_load_nothing_but_yaml_when_they_read() -> None:
    """They are plain code over YAML's events; who has no file to read does not pay for them."""
    readers = ("job.read_job", "hosts.read_inventory", "hosts.hostfile", "schema")
    statement = "import " + ", ".join(f"distui.spec.{name}" for name in readers)
    heavy = ("yaml", "pydantic", "asyncssh", "textual", "torch", "asyncio")
    assert loaded(statement, *heavy) == set()
    read = "distui.spec.hosts.read_inventory.read_inventory('version: 1\\nhosts: {n1: {}}', 'hosts.yaml')"
    assert loaded(f"{statement}; {read}", *heavy) == {"yaml"}
