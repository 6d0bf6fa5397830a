"""What runs on hosts as one text to send over a channel, and the command that takes it."""

from __future__ import annotations

from functools import cache
from importlib import resources

_PACKAGE = "distui.agent"
_MODULES = (
    *("helper.wire", "helper.pack", "helper.sources", "helper.files", "gpu_query", "helper.gpus", "metrics"),
    "helper.main",
)
"""In the order of their imports."""

_BOOT = """import sys
for name, text in {texts!r}:
    module = sys.modules[name] = type(sys)(name)
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules["{main}"].main()
"""


@cache
def bundle(*modules: str) -> bytes:
    """Modules for hosts in one program, the last one's `main` called; each is put into sys.modules before it is run."""
    folder = resources.files(_PACKAGE)
    files = {name: folder.joinpath(f"{name.replace('.', '/')}.py") for name in modules}
    texts = [(f"{_PACKAGE}.{name}", file.read_text("utf-8")) for name, file in files.items()]
    return _BOOT.format(texts=texts, main=f"{_PACKAGE}.{modules[-1]}").encode()


def take(program: bytes) -> tuple[str, ...]:
    """The command that reads a program from its stdin and runs it.

    The buffered read loops until all bytes are there. `-I` keeps a `json.py` in the login's home from being imported;
    `-S` saves time.
    """
    return ("python3", "-I", "-S", "-c", f"import sys;exec(sys.stdin.buffer.read({len(program)}))")


def program() -> bytes:
    """The helper, of which each host of a run has one."""
    return bundle(*_MODULES)


def start(word: str) -> tuple[str, ...]:
    """The command that takes the helper, which greets with `word`.

    Nothing may follow the program before the greeting: what the buffer took too many would be lost.
    """
    return (*take(program()), word)
