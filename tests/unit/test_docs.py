"""The pages say what is true."""

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
