"""`success` and `same`: what a job says of a good end, beyond its exit status."""

from __future__ import annotations

from distui.spec.job import job_forms as forms
from distui.spec.job.job import Success
from distui.spec.yaml import leaves
from distui.spec.yaml.shapes import Key, Look, Record


def _something(look: Look) -> None:
    if not any(map(look.written, ("regex", "file", "min_seconds"))):
        look.problems.add(look.table, look.at, "asks for nothing: write regex, file or min_seconds")


SUCCESS = Record(
    (
        Key(
            "regex", leaves.text("a regular expression", check=forms.regex), "Some rank must print a line that matches."
        ),
        Key(
            "file",
            leaves.text("an absolute path", check=forms.absolute),
            "Must be there after the end, as the container of some rank sees it (engine process: on its host).",
        ),
        Key("min_seconds", leaves.duration(0, 366 * 86400), "A run that is over sooner has failed."),
    ),
    "a mapping such as {file: /out/last.pt}",
    build=Success,
    check=_something,
    hints={"regexp": "unknown key, did you mean 'regex'?", "path": "unknown key, did you mean 'file'?"},
)
SAME = leaves.text("a regular expression", check=forms.regex)
