"""What importing ssh costs, and that nothing is lost by it."""

from __future__ import annotations

import ctypes.util
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from distui.remote import optional

IMPORTED = """
import sys
started = []
sys.addaudithook(lambda name, args: started.append(args[0]) if name in ("subprocess.Popen", "os.fork") else None)
import distui.remote.pool
print(started, "cryptography.x509" in sys.modules)
"""
OFFERS = "from asyncssh import kex, mac; print(kex.get_kex_algs(), mac.get_mac_algs())"


def test_ssh_is_imported_without_a_process(fresh_python: Callable[[str], str]) -> None:
    """Libraries are not looked for by a compiler, and X.509 is not loaded where nothing can use it."""
    x509 = importlib.util.find_spec("OpenSSL") is not None
    assert fresh_python(IMPORTED) == f"[] {x509}\n"


def test_ssh_offers_what_asyncssh_has(fresh_python: Callable[[str], str]) -> None:
    """Key exchanges and MACs, those of liboqs and nettle included where they are installed."""
    assert fresh_python(f"import distui.remote; {OFFERS}") == fresh_python(OFFERS)


@pytest.mark.parametrize("name", ["c", "pthread", "no-such-library"])
def test_a_library_is_found_as_python_finds_it(name: str) -> None:
    """By the name that loads, None where there is none."""
    found = optional.find_library(name)
    assert found == ctypes.util.find_library(name)


def test_a_library_that_does_not_load_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache names it, but it is of another architecture, or gone."""
    monkeypatch.setattr(optional, "CACHE", tmp_path / "ld.so.cache")
    optional.CACHE.write_bytes(b"glibc-ld.so.cache1.1\0/lib/elsewhere/libgone.so.3\0/lib/libgone.so\0")
    assert optional.find_library("gone") is None


def test_the_search_of_others_is_left_as_it_was() -> None:
    """Who uses distui as a library has ctypes as it was, and can import X.509."""
    before = ctypes.util.find_library
    with optional.looked_for_cheaply():
        pass
    assert ctypes.util.find_library is before
    assert sys.modules.get("asyncssh.crypto.x509", sys) is not None
