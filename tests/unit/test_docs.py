"""The pages say what is true."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

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
