"""What asyncssh can do without, looked for cheaply while it is imported.

It looks for two libraries, liboqs and nettle, by `ctypes.util.find_library`, which starts ldconfig, gcc and ld for each
name that is not there, eleven processes in all; and it loads the X.509 part of cryptography before it knows whether
pyOpenSSL, which it takes for that, is installed.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import getpass
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path("/etc/ld.so.cache")
"""Names and paths of all libraries that the linker of glibc finds by itself; `ldconfig -p` prints it."""
_X509 = "asyncssh.crypto.x509"


@contextmanager
def looked_for_cheaply() -> Iterator[None]:
    """Import asyncssh in this block. It finds all that it would find elsewhere."""
    search, x509 = ctypes.util.find_library, _X509 not in sys.modules and not importlib.util.find_spec("OpenSSL")
    if sys.platform == "linux" and "LD_LIBRARY_PATH" not in os.environ and CACHE.exists():
        ctypes.util.find_library = find_library
    if x509:
        sys.modules[_X509] = None  # type: ignore[assignment] # what can't be imported, as without pyOpenSSL
    try:
        yield
    finally:
        ctypes.util.find_library = search
        if x509:
            del sys.modules[_X509]


class Names:
    """In the place of `getpass`, which asyncssh asks who runs it.

    It wants the name only for `%u` in files that distui reads itself; a login may have none (a container's `--user`).
    """

    def getuser(self) -> str:
        """The login's name, `nobody` where it has none."""
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return "nobody"


def find_library(name: str) -> str | None:
    """`ctypes.util.find_library` without a process: a library's file name, None where none is there that loads."""
    names = re.findall(rb"[\0/](lib%s\.so[^\0/]*)\0" % re.escape(name.encode()), CACHE.read_bytes())
    library: str | None = max(names, key=len).decode("ascii", "replace") if names else None  # with its version
    if library is None:
        return None
    try:
        ctypes.CDLL(library)
    except OSError:  # of another architecture, or gone since
        return None
    return library
