"""Ways to break a host."""

from __future__ import annotations

KINDS: dict = {}


def apply_fault(host, kind, *args): ...
def heal(host): ...
