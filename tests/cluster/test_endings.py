"""The recorder of endings: what it writes of a real run is a case like those that are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verdict.record import record
from verdict.scenarios import ALL

pytestmark = pytest.mark.cluster

KEPT = Path(__file__).parents[1] / "verdict/cases"


DIFFERS = ("lines", "clock", "measured_at", "away")


def shape(value: Any) -> Any:
    """A case without what differs from run to run: times, and how many lines were said or clocks were read."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items() if key not in DIFFERS}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return None if isinstance(value, float) else value


def words_of(case: dict[str, Any], task: int) -> list[str]:
    """What a task said but for its steps and its program's line numbers; stdout and stderr race, so in no order."""
    texts = [text for _, _, text in case["tasks"][task]["lines"]]
    return sorted(text for text in texts if not text.startswith("step ") and "ends.py" not in text)


@pytest.mark.parametrize("name", ["env-raise-alone", "stop-user"])
def test_a_case_recorded_anew_is_the_one_that_is_kept(lab: Any, tmp_path: Path, name: str) -> None:
    """The same ends, stops and truth; another run's times."""
    record(lab, next(s for s in ALL if s.name == name), tmp_path)
    made, kept = (json.loads((folder / f"{name}.json").read_text()) for folder in (tmp_path, KEPT))

    for case in (made, kept):
        for stop in case["stops"]:
            stop["by"] = bool(stop["by"])
    assert shape(made) == shape(kept)
    if name == "env-raise-alone":
        assert words_of(made, 1) == words_of(kept, 1)
