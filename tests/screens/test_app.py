"""The app around its screens: views, keys, commands, help, dialogs, sizes, themes, errors."""

from __future__ import annotations

from typing import Any

from fakes import screen_text, shot


async def test_jobs_tell_what_is_wrong_at_its_line(open_app: Any) -> None:
    """A job file that can't be read keeps its row, with every problem at its line."""
    async with open_app(start="jobs") as (app, _):
        text = screen_text(app)
        shot(app, "jobs")
        assert "llm-pretrain" in text
        assert "line 3" in text
        assert "did you mean 'image'" in text
