"""The pages say what is true."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from distui.spec.hosts.read_inventory import load_inventory
from distui.spec.job.read_job import load_job
from distui.spec.schema import schema

DOCS = Path(__file__).parents[2] / "docs"


def keys(value: Mapping[str, Any]) -> Iterator[str]:
    """Every key the file may have at its top, and below hosts."""
    yield from value["properties"]


@pytest.mark.parametrize("kind", ["hosts", "job"])
def test_every_key_is_documented(kind: str) -> None:
    """docs/jobs.md names every top-level key of both files."""
    page = (DOCS / "jobs.md").read_text()

    assert [key for key in keys(schema(kind)) if f"`{key}" not in page and f"{key}:" not in page] == []


def test_the_tests_that_show_a_protection_are_there() -> None:
    """SECURITY.md names a test for each; every one exists, and so does every page and place it leads to."""
    text = (DOCS.parent / "SECURITY.md").read_text()
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert len(named) > 10
    assert [path for path in sorted(named) if not (DOCS.parent / path).is_file()] == []
    for page, place in re.findall(r"\]\(([\w/.]+)#([\w-]+)\)", text):
        titles = re.findall(r"^#+ (.*)$", (DOCS.parent / page).read_text(), re.MULTILINE)
        assert place in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
    assert "(SECURITY.md)" in (DOCS.parent / "README.md").read_text()


def test_samples_name_no_schema_file_that_is_not_there() -> None:
    """An editor says that it can't be loaded; `distui schema job --help` says how to have one."""
    samples = [
        DOCS.parent / "hosts.yaml",
        *(DOCS.parent / "jobs").glob("*.yaml"),
        *DOCS.parent.glob("examples/**/*.yaml"),
    ]
    assert len(samples) > 15
    assert [path.name for path in samples if "$schema=" in path.read_text()] == []


def blocks() -> Iterator[tuple[str, str]]:
    """The YAML of README and docs that is a whole file, with its page."""
    for page in (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))):
        for text in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            if "version: 1" in text:
                yield page.name, text


def test_every_file_that_a_page_shows_is_one(tmp_path: Path) -> None:
    """hosts.yaml and job files of README and docs are read without a complaint."""
    shown = list(blocks())
    assert {"README.md", "jobs.md", "training.md"} <= {page for page, _ in shown}
    for _, text in shown:
        path = tmp_path / "shown.yaml"
        path.write_text(text)
        if "\nhosts:\n" in text:
            load_inventory(str(path))
        else:
            load_job(str(path), environ={})
