"""The ssh side: the only importer of asyncssh."""

import importlib
import os
import tempfile

from distui.remote.optional import Names, looked_for_cheaply


def _with_room_for_temporary_files() -> None:
    """On a full disk Python finds no folder for them and asyncssh, which makes one, can't be imported.

    Any folder that may be written to will do: what is in memory where there is that, else what it takes for full.
    """
    try:
        tempfile.gettempdir()
    except OSError:
        places = ("/dev/shm", "/tmp", "/var/tmp")
        tempfile.tempdir = next((place for place in places if os.access(place, os.W_OK)), None)


_with_room_for_temporary_files()
with looked_for_cheaply():
    importlib.import_module("asyncssh")
importlib.import_module("asyncssh.connection").getpass = Names()  # type: ignore[attr-defined]
