"""Runs the Python of a page of Markdown (README.md) as it stands, with this Python's distui, on two hosts made for it.

What it finds in its folder is a hosts.yaml with those hosts, as group `gpu`, and a job.yaml that needs nothing but
Python. Blocks run one after the other, each as a notebook runs a cell: `await` may stand outside of functions.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from distui.remote.demo.demo import DemoHosts

README = Path(__file__).resolve().parents[1] / "README.md"
HOSTS = "version: 1\ndefaults: {docker: process}\nhosts:\n  demo[1-2]: {}\ngroups:\n  gpu: demo[1-2]\n"
JOB = """\
version: 1
name: readme
hosts: demo[1-2]
command: echo "rank $RANK of $WORLD_SIZE"
"""


def blocks(page: str) -> list[str]:
    """The blocks of Python in a page of Markdown."""
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def run_here(page: Path) -> None:
    """Run the blocks of a page in this folder, in one namespace."""
    names: dict[str, object] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for block in blocks(page.read_text("utf-8")):
            code = compile(block, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(eval(code, names))
            else:
                exec(code, names)


async def run(page: Path) -> int:
    """Run the blocks of a page with hosts; the exit status."""
    with TemporaryDirectory(prefix="distui-readme-") as name:
        root, work = Path(name), Path(name) / "work"
        work.mkdir()
        for file, text in {"hosts.yaml": HOSTS, "job.yaml": JOB}.items():
            (work / file).write_text(text)
        async with DemoHosts(2, root=root):
            environ = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "DISTUI_"))}
            child = await asyncio.create_subprocess_exec(
                sys.executable, __file__, "--here", str(page), cwd=work, env=environ | {"HOME": name}
            )
            return await child.wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--here", path]:
            run_here(Path(path))
        case [path]:
            sys.exit(asyncio.run(run(Path(path).resolve())))
        case _:
            sys.exit(asyncio.run(run(README)))
