"""The launch form: the job's fields, then what is shown and not edited."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.events import DescendantFocus
from textual.message import Message

from distui.plan.model import RunPlan
from distui.spec.completion import describe
from distui.spec.hosts.names import fold
from distui.spec.job.job import Job
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import glyphs_of, palette_of
from distui.tui.hosts.lines import title
from distui.tui.launch.form.form_field import FIELD_MOVES, ChoiceField, FormField
from distui.tui.launch.form.form_rest import rest_lines
from distui.tui.launch.form.job_form import FIELDS, Field
from distui.tui.paint.paint import Line
from distui.tui.widgets.painted import Painted


class JobRow(FormField):
    """Which job: enter and the arrows go through the job files."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        *FIELD_MOVES,
        Action("edit", "next job", ("enter", "space", "right", "l"), "View", footer=True),
        Action("job_before", "job before", ("left", "h"), "View"),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    class Turn(Message):
        """Another job is wanted: the next (1) or the one before (-1)."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def action_edit(self) -> None:
        """The next job."""
        self.post_message(self.Turn(1))

    def action_job_before(self) -> None:
        """The job before."""
        self.post_message(self.Turn(-1))


class JobForm(VerticalScroll, can_focus=False):
    """Shows a job; its fields say `FormField.Changed`."""

    DEFAULT_CSS = """
    JobForm { scrollbar-size-vertical: 1; }
    JobForm #rest { height: auto; }
    JobForm #hint { height: 2; margin: 1 0 0 0; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.job: Job | None = None
        self.plan: RunPlan | None = None

    def compose(self) -> ComposeResult:
        """See textual."""
        yield Painted(self._title)
        yield Painted(_nothing, classes="space")
        yield JobRow("job", "Job")
        for field in FIELDS:
            if field.gap:
                yield Painted(_nothing, classes="space")
            yield self._field(field)
        yield Painted(self._hint, id="hint")
        yield Painted(self._rest, id="rest")

    def _field(self, field: Field) -> FormField:
        if field.choices:
            return ChoiceField(field.id, field.label, field.choices)
        return FormField(field.id, field.label, field.help)

    def field(self, name: str) -> FormField:
        """One row."""
        return self.query_one(f"#field-{name}", FormField)

    @property
    def typing(self) -> bool:
        """Whether text is being typed in a field."""
        return any(row.typing for row in self.query(FormField))

    def show(
        self,
        name: str,
        count: str,
        job: Job | None,
        plan: RunPlan | None,
        wrong: Collection[str],
        values: Mapping[str, str],
        only_in_text: Collection[str] = (),
    ) -> None:
        """The job as it stands, and what each field says of its text; `wrong` are keys with problems, `only_in_text`
        fields that can't say all of it."""
        self.job, self.plan = job, plan
        self.field("job").show(name, count)
        for field in FIELDS:
            row = self.field(field.id)
            if row.typing:
                continue
            value, bad, more = values[field.id], field.key.split(".")[0] in wrong, field.id in only_in_text
            if field.id == "hosts":
                hosts = plan.hosts if plan else ()
                row.show(value, str(len(hosts) or ""), wrong=bad, empty=fold(hosts), only_in_text=more)
            else:
                row.show(value, wrong=bad, only_in_text=more)
        rest = self.query_one("#rest", Painted)
        rest.styles.height = len(self._rest(46, 0)) or 1
        for part in self.query(Painted):
            part.repaint()

    def _title(self, width: int, height: int) -> list[Line]:
        return [title("Job", width, palette_of(self), glyphs_of(self))]

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """What the schema says of the field that has the keys."""
        self._fit_hint()

    def on_resize(self) -> None:
        """All of it in another width, too."""
        self._fit_hint()

    def _fit_hint(self) -> None:
        hint = self.query_one("#hint", Painted)
        hint.styles.height = max(2, len(self._hint(hint.size.width, 0)))
        hint.repaint()

    def _hint(self, width: int, height: int) -> list[Line]:
        row = next((r for r in self.query(FormField) if r.has_focus_within), None)
        field = next((f for f in FIELDS if row is not None and f.id == row.key), None)
        words = describe(field.key) if field is not None else ""
        return [Line().gap(2).put(part, palette_of(self).faint) for part in wrap(words, max(20, width - 4))]

    def _rest(self, width: int, height: int) -> list[Line]:
        return rest_lines(self.job, self.plan, width, palette_of(self), glyphs_of(self)) if self.job else []


def _nothing(width: int, height: int) -> list[Line]:
    return []
