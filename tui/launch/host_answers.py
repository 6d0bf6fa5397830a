"""What the hosts of a plan say of it before a start: whether they have its image, and how the checks came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from distui.doctor.images import ImageId, Images
from distui.plan.model import RunPlan
from distui.tui.frame.base import View
from distui.tui.launch.before_lines import Checked
from distui.tui.launch.drafting import image_state
from distui.tui.launch.plan_lines import Preview


class HostAnswers:
    """Each image is asked for once a host; the checks are those that were asked for last."""

    def __init__(self, view: View, show: Callable[[], None]) -> None:
        self._view = view
        self._show = show
        """Shows what is known now."""
        self._images: dict[str, dict[str, ImageId]] = {}
        self._asked: set[tuple[str, str]] = set()
        """Images and hosts of which one was asked for the other."""
        self._checked: Checked | None = None
        self._checking: object | None = None
        """Stands for the checks that are being made now."""

    def forget_checks(self) -> None:
        """Another job is shown: they were not for it, nor are those that are being made."""
        self._checked = self._checking = None

    def ask_images(self, plan: RunPlan | None) -> None:
        """Ask the plan's hosts for its image, each once."""
        if plan is None or plan.image is None:
            return
        hosts = [h for h in plan.hosts if (plan.image, h) not in self._asked]
        if hosts:
            self._asked |= {(plan.image, host) for host in hosts}
            self._view.work(self._take_images(plan.image, hosts), name="images", alone=False)

    async def _take_images(self, image: str, hosts: Sequence[str]) -> None:
        self._take(await self._view.backend.images((image,), hosts))
        self._show()

    def _take(self, found: Images) -> None:
        for image, ids in found.items():
            self._images.setdefault(image, {}).update(ids)

    async def check(self, plan: RunPlan) -> bool:
        """Do the checks that come before a start. Whether they are still for what is shown."""
        mine = self._checking = object()
        self._show()
        try:
            found = await self._view.backend.preflight(plan)
            self._take(found.images)
            wanted = self._checking is mine
            if wanted:
                self._checked = Checked(found.rows, time.strftime("%H:%M:%S"), plan.hash)
            return wanted
        finally:
            if self._checking is mine:
                self._checking = None
            self._show()

    def added_to(self, preview: Preview) -> Preview:
        """The preview of a plan with what the hosts said meanwhile."""
        if preview.plan is None:
            return preview
        found = self._images.get(preview.plan.image or "")
        state = image_state(preview.plan, found) if found is not None else None
        return replace(preview, image=state, checked=self._checked, checking=self._checking is not None)
