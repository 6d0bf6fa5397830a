"""Where the lab keeps its things, and the one exception it raises."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
STUBS = HERE / "stubs"
REPO = HERE.parents[1]

LAB_DIR = Path(os.environ.get("DISTUI_LAB_DIR", "/var/tmp/distui-lab"))
"""Image cache and the running labs' folders. Large, outside git, may be deleted when no lab is up."""

NETNS = Path("/run/netns")

SUDO_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of everything the lab starts, so that the caller's shell set-up does not matter."""


class LabError(Exception):
    """The lab cannot do what was asked; the message says what was seen and what to do."""


def lab_folder(name: str) -> Path:
    """The folder of one running lab: state, hosts, ssh keys, shared folder. Gone after `down`."""
    return LAB_DIR / "labs" / name


def lock_file(name: str) -> Path:
    """Held while a lab is brought up or taken down."""
    return LAB_DIR / f"{name}.lock"
