"""Everything Doctor knows as one file to pass on: findings, facts, who reaches whom, versions."""

from __future__ import annotations

import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path

from distui.doctor.finding import CheckRow, report_text, to_json
from distui.doctor.reach import ReachReport
from distui.doctor.reach_check import reach_table
from distui.doctor.redact import Redactor
from distui.facts.host import ProbeResult
from distui.facts.render_json import probe_json
from distui.files import new_file, writing

REPLACED = "names, addresses and serial numbers that are known or look like one are replaced"
"""What a bundle with a redactor is."""


def bundle(
    rows: tuple[CheckRow, ...],
    results: Mapping[str, ProbeResult],
    reach: ReachReport | None,
    *,
    version: str,
    redactor: Redactor | None,
) -> dict[str, bytes]:
    """File name -> content. Without a redactor names and addresses stay."""
    files = {
        "report.txt": report_text(rows, all_=True),
        "reach.txt": reach_table(reach, tuple(results)) if reach is not None else "not tried: fewer than two hosts",
        "about.txt": f"distui {version}, Python {platform.python_version()}, {platform.system()} {platform.machine()}\n"
        + (REPLACED if redactor else "names and addresses are as they are"),
    }
    values = {"doctor.json": to_json(rows), "probe.json": probe_json(results)}
    made = {name: (redactor.text(text) if redactor else text) + "\n" for name, text in files.items()}
    for name, value in values.items():
        made[name] = json.dumps(redactor.value(value) if redactor else value, indent=1, ensure_ascii=False) + "\n"
    return {name: text.encode("utf-8", "replace") for name, text in sorted(made.items())}


def write_bundle(path: Path, files: Mapping[str, bytes], *, at: float) -> None:
    """A .tgz of the files in one folder. Raises UsageError when it exists or can't be written."""
    with writing(path), new_file(path) as target, tarfile.open(fileobj=target, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"distui-doctor/{name}")
            info.size, info.mtime, info.mode = len(data), int(at), 0o644
            tar.addfile(info, io.BytesIO(data))
