"""A job file in a few rows: what it would run, where, and how its last run ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from distui.cluster.jobs.job_files import JobFile
from distui.plan.labels import format_ranks
from distui.runs.report.history import RunRow
from distui.runs.report.run_words import failure_words, took_words
from distui.spec.job.job import Job
from distui.tui.hosts.lines import title
from distui.tui.launch.form.job_form import command_text, gpus_text, hosts_text
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line, cut
from distui.tui.paint.theme import Palette
from distui.tui.run.words import started_words, state_style, state_words


def last_run(file: JobFile, rows: Sequence[RunRow]) -> RunRow | None:
    """The newest run of a job of that name."""
    return max((row for row in rows if row.job == file.name), key=lambda row: row.started or 0.0, default=None)


def last_words(row: RunRow | None) -> str:
    """`failed 1, today 11:02`."""
    return "never" if row is None else f"{state_words(row)}, {started_words(row.started)}"


def job_preview(file: JobFile, rows: Sequence[RunRow], width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    """The job under the cursor; of one that can't be read the list itself says why."""
    if file.job is None:
        return []
    lines = [title(file.name, width, palette, glyphs, facts=[str(file.path)]), Line()]
    lines += [_fact(label, words, width, palette) for label, words in _facts(file.job) if words]
    last = last_run(file, rows)
    lines += [Line(), title("Last run", width, palette, glyphs, facts=[last.run] if last else []), Line()]
    if last is None:
        return [*lines, Line().gap(3).put("this job has not run yet, as far as this machine knows", palette.muted)]
    state = Line().put("state", palette.faint, width=13, right=True).gap(2)
    lines.append(
        state.put(last_words(last), state_style(last, palette)).put(f"   took {took_words(last) or '-'}", palette.muted)
    )
    if last.failure is not None:
        lines += [_fact("failure", failure_words(last.failure, brief=True), width, palette)]
        lines += [_fact("next", last.failure.hint, width, palette)] if last.failure.hint else []
    return lines


def _fact(label: str, message: str, width: int, palette: Palette) -> Line:
    line = Line().put(label, palette.faint, width=13, right=True).gap(2)
    return line.put(cut(message, width - 16), palette.text)


def _facts(job: Job) -> list[tuple[str, str]]:
    """What matters of a job, in the order of the form."""
    return [
        ("hosts", hosts_text(job) or "those that are marked or named at the start"),
        ("GPUs", _gpus(job)),
        ("launcher", ", ".join(filter(None, [job.launcher, _layout(job)]))),
        ("network", f"backend {job.backend or 'auto'}, fabric {job.fabric.kind}, rendezvous {job.rendezvous.kind}"),
        ("image", _image(job)),
        ("command", command_text(job)),
        ("if one fails", "the others are stopped" if job.on_fail == "stop" else "the others keep running"),
        ("if it hangs", {"stop": "the run is stopped", "restart": "the run is restarted"}.get(job.on_hang, "")),
        ("secrets", ", ".join(job.secrets)),
    ]


def _gpus(job: Job) -> str:
    """What ranks get where nothing else, such as a choice of hosts, says it."""
    if asked := gpus_text(job):
        return asked + " on each host" * (not job.gpus_by_host)
    if job.launcher == "tf":
        return "as its roles say"
    if job.gpus_per_rank:
        return f"{job.gpus_per_rank} for each rank"
    return "all" if job.ranks is not None and job.ranks.per_gpu else "none"


def _image(job: Job) -> str:
    if job.build is None:
        return job.image or "none: processes on the hosts"
    return f"{job.image or 'named by its content'}, built from {job.build.context}"


def _layout(job: Job) -> str:
    """How many ranks there are, as far as the job itself says it."""
    ranks = job.ranks
    if job.roles:
        return ", ".join(
            f"{name} {role.count or (f'{role.per_host} per host' if role.per_host else 1)}"
            for name, role in job.roles.items()
        )
    if ranks is None:
        return ""
    if ranks.by_host:
        return "; ".join(f"ranks {format_ranks(own)} on {host}" for host, own in ranks.by_host.items())
    return f"{ranks.per_gpu} per GPU" if ranks.per_gpu else f"{ranks.per_host} per host" if ranks.per_host else ""
