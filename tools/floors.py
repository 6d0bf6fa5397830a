"""Prints the lowest version of each dependency that pyproject.toml allows, as `name==version` lines for pip.

    tools/floors.py                      # the dependencies of distui
    tools/floors.py constraints.txt      # and behind them all other packages, as that file has them

`make floors` installs those versions and runs tests with them: a range that begins too low is a promise that breaks
at whoever has an old version installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def name_of(requirement: str) -> str:
    """The name that a requirement or a line of constraints begins with, as package indexes compare names."""
    written = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", written.group()).lower() if written else ""


def floor(requirement: str) -> str:
    """`click>=8.1,<9` as `click==8.1`."""
    lowest = re.search(r">=\s*([\w.]+)", requirement)
    if not lowest:
        raise SystemExit(f"pyproject.toml: `{requirement}` has no lowest version; write `{requirement}>=VERSION`")
    return f"{name_of(requirement)}=={lowest.group(1)}"


def lines(requirements: Iterable[str], constraints: Iterable[str] = ()) -> Iterator[str]:
    """The floor of each requirement, then what the constraints say of other packages."""
    floors = [floor(requirement) for requirement in requirements]
    names = {name_of(line) for line in floors}
    yield from floors
    yield from (line for line in constraints if name_of(line) not in names | {""})


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    others = [line for file in sys.argv[1:] for line in Path(file).read_text("utf-8").splitlines()]
    print("\n".join(lines(project["dependencies"], others)))
