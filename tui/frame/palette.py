"""What the command palette finds: actions at hand, views, hosts, runs and themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.keys import actions_here, keys_of


class Actions(Provider):
    """Every action of the registry that works here, with its key, and places to go to."""

    def _found(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """Title, help, what it does."""
        screen, app = self.screen, app_of(self.screen)
        if isinstance(screen, View):
            for action in actions_here(screen):
                if action.group != "Move":
                    key = keys_of(action, app.keymap)[0] if action.keys else ""
                    words = (action.help or action.title).rstrip(".") + ("; asks first" if action.changes else "")
                    yield f"{action.title}  ({key})", words, partial(screen.run_later, action.id)
        for host in app.board.hosts:
            yield f"host {host}", "everything about this host", partial(app.open_host, host)
        for row in app.rows:
            yield f"run {row.run}", f"{row.job}, {row.state}", partial(app.follow_run, row.run)
        for name in sorted(self.app.available_themes):
            yield f"theme {name}", "colours", partial(setattr, self.app, "theme", name)

    async def discover(self) -> Hits:
        """See textual: before anything is typed, the actions at hand."""
        for title, words, done in self._found():
            if not title.startswith("theme "):
                yield DiscoveryHit(title, done, help=words)

    async def search(self, query: str) -> Hits:
        """See textual: fuzzy, over titles and help."""
        matcher = self.matcher(query)
        for title, words, done in self._found():
            score = max(matcher.match(title), 0.8 * matcher.match(words))
            if score > 0:
                yield Hit(score, matcher.highlight(title), done, help=words)
