"""When distui itself listened on hosts, to prove that they are reached: a probe may have seen that then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

PROBE_S = 5.0
"""Seconds that a probe may have begun before it was answered."""


@dataclass
class Proof:
    """From when to when distui listened."""

    begun: float
    ended: float = inf


class Proofs:
    """All of them: the facts of a host stay, so what was seen during an earlier one still has to be recognised."""

    def __init__(self) -> None:
        self._all: list[Proof] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While distui listens, however that ends."""
        proof = Proof(time.time())
        self._all.append(proof)
        try:
            yield
        finally:
            proof.ended = time.time()

    def during(self, at: float) -> bool:
        """Whether a probe that was answered then may have seen distui itself."""
        return any(proof.begun <= at <= proof.ended + PROBE_S for proof in self._all)

    @property
    def ended(self) -> float | None:
        """When the newest of them ended; None while it goes on."""
        newest = self._all[-1].ended if self._all else inf
        return newest if newest < inf else None
