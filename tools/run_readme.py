"""Runs the Python example of README.md as it stands, with this Python's distui, on two hosts made for it.

What the example finds in its folder is a hosts.yaml with those hosts and a job.yaml that needs nothing but Python.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from distui.remote.demo.demo import DemoHosts

README = Path(__file__).resolve().parents[1] / "README.md"
HOSTS = "version: 1\ndefaults: {docker: process}\nhosts:\n  demo[1-2]: {}\n"
JOB = """\
version: 1
name: readme
hosts: demo[1-2]
command: echo "rank $RANK of $WORLD_SIZE"
"""


def example(page: str) -> str:
    """The one block of Python in a page of Markdown."""
    (found,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(found)


async def run(program: str) -> int:
    """Run it; its exit status."""
    with TemporaryDirectory(prefix="distui-readme-") as name:
        root, work = Path(name), Path(name) / "work"
        work.mkdir()
        for file, text in {"hosts.yaml": HOSTS, "job.yaml": JOB, "example.py": program}.items():
            (work / file).write_text(text)
        async with DemoHosts(2, root=root):
            environ = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "DISTUI_"))}
            child = await asyncio.create_subprocess_exec(
                sys.executable, "example.py", cwd=work, env=environ | {"HOME": name}
            )
            return await child.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run(example(README.read_text("utf-8")))))
