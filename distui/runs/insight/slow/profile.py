"""What a late rank does longer than the others in each step, from stacks taken now and then. Pure.

A rank that is late for 200 ms in each step spends 200 ms more than the others in something, while they spend them
waiting for it in a collective. Share of the stacks times a step's length is the time a step spends there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from distui.frozen import frozen
from distui.regex import regex
from distui.runs.insight.seen.answers import Frame
from distui.runs.insight.seen.doing import own_of
from distui.runs.insight.seen.ranks import main_of
from distui.runs.insight.seen.stalls import LOADER, stall_of
from distui.runs.insight.seen.waits import waits_of
from distui.runs.insight.seen.watched import Sample

FEWEST = 10
"""Stacks of a rank without which nothing is said."""
MORE, PART = 3, 0.4
"""How many more stacks than expected there must be of something, and what part of the lateness it must explain."""

_BACKWARD = regex(r"torch/autograd/|torch/_tensor\.py")
_PLACES = (
    ("in its optimizer", regex(r"torch/optim/")),
    ("in its model", regex(r"torch/nn/modules/|torch/nn/parallel/|torch/nn/functional")),
)
_COLLECTIVE = regex(r"torch/distributed/(distributed_c10d|_functional_collectives|c10d_logger)")
_IN_ENGINE = regex(r"torch/autograd/")

Place = tuple[str, str]
"""Which part of a step, and what its main thread does there."""


@frozen
class Longer:
    """What a rank does longer than the others."""

    place: str
    """`in its backward`."""
    does: str
    """`sleeps`."""
    seconds: float
    """By how much longer in a step."""
    frame: Frame | None
    stacks: int
    """On how many stacks this rests."""


def longer(own: Sequence[Sample], others: Sequence[Sequence[Sample]], every: float, late: float) -> Longer | None:
    """What explains that a rank is `late` in each step of `every` seconds; None where the stacks do not tell."""
    mine = [found for one in own if (found := _place(one)) is not None]
    theirs = [[found for one in other if (found := _place(one)) is not None] for other in others]
    theirs = [places for places in theirs if len(places) >= FEWEST]
    if len(mine) < FEWEST or not theirs or every <= 0:
        return None
    counts = Counter(place for place, _ in mine if place[0] != "in a collective")
    rests = [(count - len(mine) * _usual(place, theirs), place) for place, count in counts.items()]
    more, place = max(rests, default=(0.0, ("", "")))
    seconds = more / len(mine) * every
    if more < MORE or seconds < PART * late:
        return None
    frames = Counter(frame for found, frame in mine if found == place and frame is not None)
    frame = frames.most_common(1)[0][0] if frames else None
    return Longer(place[0], place[1], seconds, frame, counts[place])


def _usual(place: Place, theirs: Sequence[Sequence[tuple[Place, Frame | None]]]) -> float:
    """The share of the others' stacks that is there."""
    total = sum(map(len, theirs))
    return sum(found == place for places in theirs for found, _ in places) / total


def _place(sample: Sample) -> tuple[Place, Frame | None] | None:
    """Where one stack is; None for a sample without the main thread's."""
    stack = main_of(sample.stacks)
    if stack is None:
        return None
    frame, files = own_of(stack), [one.file for one in stack.frames]
    does = _does(sample)
    if any(_COLLECTIVE.search(file) for file in files) or (_IN_ENGINE.search(files[0]) and does == "waits"):
        return ("in a collective", ""), frame
    if stall := stall_of(files):
        return (f"it {stall}", ""), frame
    if any(LOADER.search(file) for file in files):
        return ("in its data loader", does), frame
    if any(_BACKWARD.search(file) for file in files):
        return ("in its backward", does), frame
    for words, pattern in _PLACES:
        if any(pattern.search(file) for file in files):
            return (words, does), frame
    return ("in its own code", does), frame


def _does(sample: Sample) -> str:
    if sample.state == "R":
        return "computes"
    if sample.state == "D":
        return waits_of(sample.waits, disk=True)
    return waits_of(sample.waits, locked=False) or "waits"
