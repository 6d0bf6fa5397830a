"""A web server that breaks connections, for what is fetched: as a value, or as a program in the lab.

python3 web.py PORT FILE SIZE CUT CUTS [nohead]      serves SIZE bytes as /FILE; the first CUTS answers end at CUT
"""

from __future__ import annotations

import http.server
import re
import sys
import threading
import time
import urllib.parse
from typing import Any


class Web(http.server.ThreadingHTTPServer):
    """Serves `files`; the first `cuts` answers end after `cut` bytes.

    `then` is what a file becomes with the answer of that number, `broken` what /a is once an answer was cut; `states`
    says whether an ETag tells it. `refuses` are the answers to requests of these numbers, whatever they ask for.
    """

    daemon_threads = True

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__((address, port), _Answer)
        self.files: dict[str, bytes] = {}
        self.cut, self.cuts, self.ranges, self.slow, self.head = 0, 0, True, 0.0, True
        self.states, self.then, self.hangs = True, dict[int, bytes](), threading.Event()
        self.broken = b""
        self.requests, self.refuses = 0, dict[int, int]()
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(http.server.BaseHTTPRequestHandler):
    server: Web

    def do_HEAD(self) -> None:
        if self.path == "/hangs":
            self.server.hangs.set()
            threading.Event().wait()
        if self._refused():
            return
        if self.server.head:
            self._answer(body=False)
        else:
            self.send_error(405)

    def do_GET(self) -> None:
        if self._refused():
            return
        self.server.asked.append(f"{self.path} {self.headers.get('Range', '')}".strip())
        self._answer(body=True)

    def _refused(self) -> bool:
        self.server.requests += 1
        code = self.server.refuses.get(self.server.requests)
        if code is not None:
            self.send_error(code)
        return code is not None

    def _answer(self, *, body: bool) -> None:
        path = urllib.parse.unquote_to_bytes(self.path.encode("latin-1")).decode()
        if body and (new := self.server.then.get(len(self.server.asked))):
            self.server.files[path] = new
        data = self.server.files.get(path)
        if data is None:
            self.send_error(404)
            return
        asked = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and self.server.ranges else 0
        if start and start >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        if self.server.states:
            self.send_header("ETag", f'"{hash(data)}"')
        self.end_headers()
        if body:
            self._send(data[start:])

    def _send(self, data: bytes) -> None:
        if self.server.cuts and len(data) > self.server.cut:
            self.server.cuts -= 1
            self.server.files["/a"] = self.server.broken or self.server.files.get("/a", b"")
            data = data[: self.server.cut]
        self.wfile.write(data)
        self.wfile.flush()
        time.sleep(self.server.slow)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        return


def main() -> None:
    """Serve until killed."""
    port, name, size, cut, cuts, *more = sys.argv[1:]
    server = Web("0.0.0.0", int(port))
    server.files[f"/{name}"] = bytes(range(256)) * (int(size) // 256)
    server.cut, server.cuts, server.head = int(cut), int(cuts), not more
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
