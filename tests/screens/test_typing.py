"""Keys that come faster than the app handles them, as over a slow link or from a paste."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import screen_text, settle
from textual.events import Key


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (("colon", *"host", "space", *"node03", "enter"), "Hosts › node03"),
        (("slash", *"node03"), "node03"),
        (("3", "slash", *"vit", "enter", "1", "colon", *"runs", "enter"), "vit-2b1"),
        (("question_mark", *"sort", "escape", "2"), "llm-pretrain.yaml"),
    ],
)
async def test_a_burst_of_keys_arrives_where_it_was_meant(open_app: Any, keys: tuple[str, ...], shown: str) -> None:
    """What is typed after `:`, `/` or `?` is text, however fast it comes."""
    async with open_app() as (app, pilot):
        for key in keys:
            character = {"colon": ":", "slash": "/", "question_mark": "?", "space": " "}.get(key, key)
            app.post_message(Key(key, character if len(character) == 1 else None))
        for _ in range(4):
            await settle(pilot)
        assert shown in screen_text(app)
        assert not app._notifications
