"""What hides the values of a run's secrets, as far as they are known here."""

from __future__ import annotations

from collections.abc import Iterable

from distui.cluster.settings import ClusterSettings
from distui.runs.store.masking import Mask
from distui.runs.store.runs import StoredRun


def mask_of(settings: ClusterSettings, names: Iterable[str], stored: StoredRun | None = None) -> Mask:
    """For secrets of these names, with values from the environment and `--env-file`.

    By what is `stored` of the run here its warnings tell values that it was not started with.
    """
    return Mask.of(names, settings.variables, stored)
