"""What stands around the panes of the run view: banner, hosts, strip, loss, timeline, comparison."""

from __future__ import annotations

from distui.amounts import counted
from distui.cluster.backend.values import LiveRun
from distui.runs.report.aftermath import is_removed
from distui.runs.report.rank_rows import digits, failed_at, numbers, remark
from distui.runs.state.load import carried_by_another, gpus_by_rank, used_networks
from distui.tui.frame.base import View
from distui.tui.logs.feed import RunFeed
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run import compare
from distui.tui.run.around import failure_banner, loss_plot
from distui.tui.run.around import strip as run_strip
from distui.tui.run.around.folding import Folding
from distui.tui.run.around.hang import WhyPanel
from distui.tui.run.around.strip import HostRow
from distui.tui.run.panes.panes import Panes
from distui.tui.run.ranks import timeline


class RunPainter:
    """Paints a run from what the feed knows of it; it changes nothing."""

    def __init__(self, view: View, live: LiveRun, feed: RunFeed, panes: Panes, folding: Folding, why: WhyPanel) -> None:
        self.view = view
        self.live = live
        self.feed = feed
        self.panes = panes
        self.folding = folding
        self.why = why

    @property
    def palette(self) -> Palette:
        """The colours."""
        return self.view.palette

    @property
    def glyphs(self) -> Glyphs:
        """The signs."""
        return self.view.glyphs

    def banner(self, width: int, height: int) -> list[Line]:
        """What failed first, what stands still, or what an end without failure warns of."""
        failure = self.feed.state.failure
        if failure is None and (stands := self.why.banner(width, height)):
            return stands
        if failure is None:
            return failure_banner.warning_lines(self.palette, self.glyphs, self.feed.warnings, width, height)
        _, gpus = self.feed.placed.get(failure.rank if failure.rank is not None else -1, (None, ()))
        where = f"GPU {','.join(map(str, gpus))}" if gpus else ""
        return failure_banner.banner_lines(
            self.palette, self.glyphs, failure, width, height, gpus=where, again=self.feed.over
        )

    def _hosts(self) -> list[HostRow]:
        state, rows = self.feed.state, self.feed.rows()
        networks = used_networks(self.live.plan)
        made = []
        for host in self.live.plan.hosts:
            mine = [r for r in rows if r.host == host]
            known = state.hosts.get(host)
            lost = (known.reason or "no answer") if known is not None and known.connection == "lost" else ""
            worst = min(mine, key=lambda r: {"wrong": 0, "watch": 1, "muted": 2}.get(r.tone, 3), default=None)
            made.append(
                HostRow(
                    host, "lost" if lost else worst.sign if worst is not None else "starting",
                    numbers([r.rank for r in mine], digits(self.feed.buffers)),
                    list(self.feed.samples.get(host, ())), networks.get(host), lost,
                    trouble=any(r.tone == "wrong" for r in mine), remark=remark(mine, digits(self.feed.buffers)),
                    groups=gpus_by_rank(self.live.plan, host), other=carried_by_another(state.network, host),
                    over=self.feed.over,
                )
            )  # fmt: skip
        return made

    def narrow(self, width: int, height: int) -> list[Line]:
        """The hosts on a small window."""
        return run_strip.narrow_lines(self.palette, self.glyphs, self._hosts(), width, height)

    def strip(self, width: int, height: int) -> list[Line]:
        """GPUs and network of the hosts."""
        full, used = self.folding.history, self.feed.state.network
        return run_strip.strip_lines(
            self.palette, self.glyphs, self._hosts(), width, height, self._strip_end(), full=full, used=used
        )

    def _strip_end(self) -> Line:
        """What the data goes over; after the end, whether the promise was kept."""
        ended, palette = self.feed.state.ended, self.palette
        if ended is not None and ended.leftovers:
            return Line().put(f"{counted(len(ended.leftovers), 'thing')} left on hosts", palette.watch)
        if ended is not None and is_removed(ended, keeps=self.live.plan.keeps):
            hosts = len(self.live.plan.hosts)
            where = {1: " on the host", 2: " on either host"}.get(hosts, f" on {hosts} hosts")
            return Line().put("nothing of this run is left", palette.good).put(where, palette.muted)
        return Line().put(run_strip.fabric_words(list(used_networks(self.live.plan).values())), palette.muted)

    def loss(self, width: int, height: int) -> list[Line]:
        """The loss over time."""
        name, progress = self.feed.figure, self.feed.progress
        if name is None or progress is None:
            return []
        return loss_plot.loss_lines(
            self.palette, self.glyphs, name, progress.points, self.feed.value(name), width - 1, height
        )

    def timeline(self, width: int, height: int) -> list[Line]:
        """What followed a failure."""
        state = self.feed.state
        if state.failure is None or failed_at(state) is None:
            return timeline.timeline_lines(
                self.palette, self.glyphs, self.feed.moments, width, height, "", head="What went wrong"
            )
        ended = sum(not r.live for r in state.ranks.values()) - (state.failure.rank is not None)
        who = state.failure.who or "the launcher"
        if state.failure.is_of_all:
            return timeline.timeline_lines(self.palette, self.glyphs, self.feed.moments, width, height, "")
        message = f"{counted(ended, 'rank')} ended because of {who}" if ended > 0 else f"after {who} failed"
        return timeline.timeline_lines(self.palette, self.glyphs, self.feed.moments, width, height, message)

    def compare(self, width: int, height: int) -> list[Line]:
        """The ranks of one folded line of the merged log."""
        merged = self.panes.full_merged
        return compare.compare_lines(
            self.palette,
            self.glyphs,
            merged.merged.groups,
            merged.group,
            list(self.feed.placed),
            width,
            height,
            fold=merged.merged.fold,
        )
