# ruff: noqa: PLC0415, PTH123
# Any Python from 3.6 on runs this first of all, in every program of a rank: each import here costs every start.
"""First on the PYTHONPATH of ranks: makes programs that use torch.distributed, JAX or TensorFlow answer `distui why`.

Does nothing but watch for their import, then hands over to `distui_insight` beside this file. An
image's own sitecustomize is run as if this one were not there. Nothing here may stop or change the program: whatever
fails is left alone, and `distui why` says what it cannot see.
"""

import atexit
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any

_HERE = __file__.rpartition("/")[0]
_WATCHED = {"torch.distributed", "jax", "tensorflow"}
"""Until they have been loaded; none of them once torch.distributed has been, which tells more than the others."""
_INSIGHT = {}  # type: dict[str, Any]
"""What `distui_insight` defines, once it is needed."""


class Watch:
    """Finds no module itself: lets the others find one that is watched for, and is called back once that is loaded."""

    @staticmethod
    def find_spec(name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """See importlib.abc.MetaPathFinder."""
        if name not in _WATCHED:
            return None
        for finder in [finder for finder in sys.meta_path if finder is not Watch]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                break
        else:
            return None
        _call_back(spec)
        return spec


def _call_back(spec: "Any") -> None:
    """Have `distui_insight` called when this module has been loaded: not at its search, since libraries look whether a
    framework is installed, and load none; nor where loading it fails, after which others may be tried.
    """
    loader = spec.loader
    load = getattr(loader, "exec_module", None)
    if load is None or isinstance(loader, type) or "exec_module" in getattr(loader, "__dict__", ()):
        return

    def exec_module(module: "Any") -> None:
        loader.__dict__.pop("exec_module", None)  # one of a zip file loads others meanwhile
        load(module)
        if module.__name__ == spec.name:
            _loaded(spec.name)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        return


def _loaded(name: str) -> None:
    if name not in _WATCHED:
        return
    _WATCHED.discard(name)
    if name == "torch.distributed":
        _WATCHED.clear()
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not Watch]
    try:
        if not _INSIGHT:
            with open(_HERE + "/distui_insight.py", "rb") as file:
                exec(compile(file.read(), file.name, "exec"), _INSIGHT)
        _INSIGHT["begin"](name)
    except Exception:
        return


def _end() -> None:
    """Registered before all that the program itself does at its end, and so called after it."""
    try:
        _INSIGHT["end"]()
    except Exception:
        return


def _leave_the_path() -> None:
    """Where programs look for modules is as if this folder had never been named; their children still get it."""
    sys.path[:] = [entry for entry in sys.path if entry.rstrip("/") != _HERE]


def _run_the_next() -> None:
    """The sitecustomize that this one hides, in its place, as `site` would have imported it; its errors are `site`'s.

    Where there is none, that is what `site` hears of this one, too: it says nothing, and no program finds a module.
    """
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401


_leave_the_path()
atexit.register(_end)
sys.meta_path.insert(0, Watch)
_run_the_next()
