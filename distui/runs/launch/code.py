"""The job's code on every host before anything starts."""

from __future__ import annotations

import asyncio

from distui.amounts import counted, size_words
from distui.errors import ExitCode
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.steps import each, phase, raise_errors
from distui.runs.code.send import Sent
from distui.runs.code.source import CodeSource

CODE_SECONDS = 2.0
"""How often a long transfer says how far it is."""


async def ensure_code(attempt: Attempt, source: CodeSource) -> None:
    """Every host has the plan's code, before anything starts."""
    hosts = list(attempt.hosts.values())
    await phase(attempt, "code", _files(source.plan.files, source.plan.bytes))
    shown = Progress(attempt)
    senders = {host.host: host.code_sender(source, shown.add) for host in hosts}
    try:
        lacking = await each(hosts, lambda host: senders[host.host].ask())
        raise_errors(lacking, ExitCode.CHECK_FAILED)
        shown.total = sum(count for count in lacking.values() if isinstance(count, int))
        telling = asyncio.create_task(shown.tell())
        try:
            sent = await each(hosts, lambda host: senders[host.host].send())
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        raise_errors(sent, ExitCode.LAUNCH_FAILED)
    finally:
        await asyncio.gather(*(sender.close() for sender in senders.values()))
    sent_files = {host: _files(s.files, s.bytes) for host, s in sent.items() if isinstance(s, Sent) and s.files}
    same = len(set(sent_files.values())) == 1 and len(sent_files) == len(hosts)
    words = (
        f"{next(iter(sent_files.values()))} sent to each"
        if same
        else ", ".join(f"{h}: {w}" for h, w in sent_files.items())
    )
    await phase(attempt, "code", words or "all hosts have it already")


def _files(count: int, total: int) -> str:
    return f"{counted(count, 'file')}, {size_words(total)}"


class Progress:
    """How much of the code is sent, now and then in words."""

    def __init__(self, attempt: Attempt) -> None:
        self.total = 0
        self._run = attempt
        self._sent = 0

    def add(self, count: int) -> None:
        """So many bytes more went to some host."""
        self._sent += count

    async def tell(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(CODE_SECONDS)
            await phase(self._run, "code", f"{size_words(self._sent)} of {size_words(self.total)}")
