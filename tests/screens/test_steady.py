"""What is looked at again is painted again only where it changed."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region

from distui.tui.paint.paint import Line
from distui.tui.paint.steady import Steady
from distui.tui.widgets.painted import Painted


class Words(App[None]):
    """Three rows."""

    CSS = "Painted { height: 3; }"

    def __init__(self) -> None:
        super().__init__()
        self.words = ["one", "two", "three"]

    def compose(self) -> ComposeResult:
        yield Painted(lambda width, height: [Line().put(word) for word in self.words])


async def test_only_rows_that_changed_are_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    """None when nothing did; the one that did, and its new words are shown."""
    app = Words()
    async with app.run_test(size=(20, 5)) as pilot:
        await pilot.pause()
        painted, regions = app.query_one(Painted), list[Region]()
        real = Steady.refresh

        def noted(self: Steady, *changed: Region, **more: bool) -> object:
            regions.extend(changed)
            return real(self, *changed, **more)

        monkeypatch.setattr(Steady, "refresh", noted)
        painted.refresh_changed()
        assert regions == []
        app.words[1] = "2"
        painted.refresh_changed()
        assert regions == [Region(0, 1, 20, 1)]
        await pilot.pause()
        assert [painted.render_line(y).text.rstrip() for y in range(3)] == ["one", "2", "three"]
        painted.refresh_changed()
        assert len(regions) == 1
