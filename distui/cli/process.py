"""Entry of the `distui` command, in a process that is all distui's: how it starts and ends at little cost.

Nothing of this is done to a program that imports distui.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import sys
from _thread import RLock
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # that module imports tempfile, and what that needs

COMPLETE = "_DISTUI_COMPLETE"
"""The variable by which a shell's completion asks; see `distui completion`."""

LATE = ("asyncio", "base64", "getpass", "hashlib", "inspect", "json", "secrets", "shutil", "statistics", "tempfile")
"""Dear modules of Python that many modules import at their top and not every call uses: loaded when they are used.

None that another one uses as it is loaded, nor a package of which a thread imports a part (`json.decoder`): of two
threads each would wait for what the other one loads.
"""


def program() -> int:
    """The installed command: a call with the process's own arguments."""
    ended = start()
    ended.append(importlib.import_module("distui.cli.main").main())
    return ended[0]


def start() -> list[int]:
    """Call it before anything dear is imported. Put the exit code into the list that it gives as the last thing."""
    sys.meta_path.insert(0, _Parts())
    for name in LATE:
        if name not in sys.modules:
            _import_when_used(name)
    sys.modules["inspect"].__dict__.setdefault("cleandoc", cleandoc)
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type] # asyncio takes it where it is; nothing here speaks TLS
    gc.set_threshold(50_000, 20, 10)  # modules are no garbage, however many objects they make
    ended: list[int] = []
    atexit.register(_leave, ended)  # the first one to be registered is called last
    return ended


def _import_when_used(name: str) -> None:
    if (spec := importlib.util.find_spec(name)) is not None:
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        module.__class__ = _Late
        _locks[name] = RLock()


def cleandoc(doc: str) -> str:
    """As `inspect.cleandoc`, which is all that click wants of that module, for each option."""
    first, *others = doc.expandtabs().split("\n")
    indent = min((len(line) - len(line.lstrip()) for line in others if line.strip()), default=0)
    lines = [first.lstrip(), *(line[indent:] for line in others)]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return "\n".join(lines)


_locks: dict[str, RLock] = {}
"""Of late modules: of two threads that use one at the same time, one waits until all of it is there."""

_begun: set[str] = set()
"""Late modules that are loaded, or are being loaded."""


class _Late(ModuleType):
    """A module that was not run yet. `importlib.util.LazyLoader` runs one when it is imported a second time."""

    def __getattr__(self, name: str) -> Any:
        with _locks[self.__name__]:
            if self.__name__ not in _begun:
                _begun.add(self.__name__)
                assert self.__spec__ is not None and self.__spec__.loader is not None
                try:
                    self.__spec__.loader.exec_module(self)
                except BaseException:  # Ctrl-C, say: whoever uses it next loads it again
                    _begun.discard(self.__name__)
                    raise
                self.__class__ = ModuleType  # type: ignore[assignment]
        return ModuleType.__getattribute__(self, name)


class _Parts(Loader):
    """Runs the package before a part of it is imported, which would else be loaded twice: here, and by the package."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        package = sys.modules.get(name.partition(".")[0])
        if not isinstance(package, _Late) or package.__name__ in (name, *_begun):
            return None
        package.__getattr__("__all__")
        if (part := sys.modules.get(name)) is None:
            return None
        spec = ModuleSpec(name, self, loader_state=part.__spec__)
        part.__spec__ = None  # else that one is taken, and loads it again
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def _leave(ended: Sequence[int]) -> None:
    """End the process once all is done, without taking hundreds of modules apart one by one."""
    if ended:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(ended[0])
