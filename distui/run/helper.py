"""The host's helper as one text to send over a channel, and the command that takes it."""

from __future__ import annotations

from functools import cache
from importlib import resources

_PACKAGE = "distui.run.onhost"
_MODULES = ("wire", "pack", "sources", "files", "gpus", "metrics", "main")
"""In the order of their imports."""

_BOOT = """import sys
for name, text in {texts!r}:
    module = sys.modules[name] = type(sys)(name)
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules["{package}.main"].main()
"""


@cache
def program() -> bytes:
    """The helper's modules in one program; each is put into sys.modules under its own name before it is run."""
    folder = resources.files(_PACKAGE)
    texts = [(f"{_PACKAGE}.{name}", folder.joinpath(f"{name}.py").read_text("utf-8")) for name in _MODULES]
    return _BOOT.format(texts=texts, package=_PACKAGE).encode()


def start(word: str) -> tuple[str, ...]:
    """The command that reads the program from its stdin and runs it; the program greets with `word`.

    The buffered read loops until all bytes are there. Nothing may follow them before the greeting: what the buffer
    took too many would be lost. `-I` keeps a `json.py` in the login's home from being imported; `-S` saves time.
    """
    return ("python3", "-I", "-S", "-c", f"import sys;exec(sys.stdin.buffer.read({len(program())}))", word)
