"""Frames from the host's helper to distui: `u32 length | u16 id | u8 kind | u8 0`, big-endian, then the payload.

H clocks, S an HTTP status line, D bytes as they came, E the end of that id, M metrics.
"""

import json
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any

GREETING = b"\0distui helper 1 "
"""What comes before the frames, with the word we were started with and a newline: no login prints that by chance."""
READ = 256 * 1024
"""Bytes taken from one socket a pass, so that memory stays bounded."""


class Out:
    """Frames to the client, gathered over one pass. Writing may block: a slow client slows us, never the task."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.lines = 0
        """The most that one read of a source had in this pass: so many small writes."""
        self.late: list[Any] = []
        """Who has something to say as late as possible: what they gather costs less in one piece."""

    def waits(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.parts or self.late)

    def frame(self, ident: int, kind: bytes, payload: bytes) -> None:
        """Add one frame."""
        self.parts.append(struct.pack(">IHcx", len(payload), ident, kind))
        self.parts.append(payload)
        self.size += len(payload)
        if self.size > 2 * READ:
            self.flush()

    def say(self, ident: int, kind: bytes, value: "dict[str, Any]") -> None:
        """Add one frame with a JSON object."""
        self.frame(ident, kind, json.dumps(value).encode())

    def flush(self) -> None:
        """Write all of it. A broken pipe ends the helper: nobody listens."""
        late, self.late = self.late, []
        for source in late:
            source.say_held()
        data = memoryview(b"".join(self.parts))
        self.parts, self.size = [], 0
        while len(data):
            data = data[os.write(1, data) :]
