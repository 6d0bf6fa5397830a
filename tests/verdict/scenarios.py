"""The endings that are recorded."""

from __future__ import annotations

from verdict.scenario import Scenario
from verdict.scenario_ranks import RANKS
from verdict.scenario_stops import STOPS
from verdict.scenario_tf import TF
from verdict.scenario_torch import TORCH

ALL: tuple[Scenario, ...] = (*RANKS, *STOPS, *TORCH, *TF)
