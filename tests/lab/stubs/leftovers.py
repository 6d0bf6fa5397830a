"""List, as JSON, files and processes of distui on a lab host. Argument: a run's id, or nothing for all."""

import json
import pathlib
import sys

HOMES = ("/root", *map(str, pathlib.Path("/home").iterdir()))
PLACES = [(home + folder, "**/*") for home in HOMES for folder in ("/.local/state/distui", "/.cache/distui")]
PLACES += [(folder, "distui*") for folder in ("/tmp", "/dev/shm", "/run", "/var/tmp")]


def files() -> list[str]:
    found = [path for top, pattern in PLACES for path in pathlib.Path(top).glob(pattern) if not path.is_dir()]
    return [f"file {path}" for path in sorted(found)]


def processes(run: str) -> list[str]:
    """Processes outside containers too: whatever has DISTUI_RUN in its environment."""
    wanted = f"DISTUI_RUN={run}".encode()
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            names = (folder / "environ").read_bytes().split(b"\0")
            argv = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if any(name == wanted if run else name.startswith(wanted) for name in names):
            found.append(f"process {folder.name} {argv.strip()}")
    return found


print(json.dumps(files() + processes(sys.argv[1])))
