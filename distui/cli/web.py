"""The terminal UI for browsers: textual-serve with a lock on its door.

textual-serve starts the app as a process for each visit and shows what it paints; it asks nobody who he is. A port of
the loopback interface is open to every login of this machine, and to every page in the person's browser. So each
request must bring the token of the printed address, which is kept as a cookie then; must have been sent to a name of
this machine, or a stranger's name could be made to lead here (DNS rebinding); and may come from no other page (as
Jupyter does it: https://jupyter-server.readthedocs.io/en/latest/operators/security.html).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import SplitResult, urlsplit

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from distui.regex import regex
from distui.whole import whole

LEAVING_S = 10.0
"""So long apps have to leave when the server ends."""
LARGEST = (600, 250)
"""Columns and rows that the app paints at most, more than any screen has: each cell costs time and memory, and an app
that paints does not leave.
"""
LOCAL = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    # What the page needs is here: nothing is fetched from elsewhere, no other page may frame it or learn its address.
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

KEYS_AT_ONCE = """
<script>
  new MutationObserver((_, observer) => {
    const keys = document.querySelector(".xterm-helper-textarea");
    if (keys && document.body.classList.contains("-first-byte")) { observer.disconnect(); keys.focus(); }
  }).observe(document.body, {attributes: true, attributeFilter: ["class"]});
</script>
"""
"""Gives the keys to the terminal of the page as soon as the app paints: else one would have to click it first."""
FONT_FROM_ELSEWHERE = regex(r"<link\b[^>]*//fonts\.googleapis\.com[^>]*>")
NAMED = '<title>distui</title><link rel="icon" href="data:,">'
"""What the tab is called. Without an icon of the page the browser would ask for one, which is not there."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AppServer(Server):
    """Serves the app that `command` (of a shell) starts, to who has the `token`.

    `address` is that of a reverse proxy; without one, the page is reached under the names of this machine, on whatever
    port a forwarded connection has there.
    """

    def __init__(self, command: str, token: str, address: SplitResult | None = None) -> None:
        super().__init__(f"exec {command}", title="distui")
        self._token, self._address = token, address
        self._visits: set[asyncio.Task[Any]] = set()
        self._cookie = f"distui-{hashlib.sha256(token.encode()).hexdigest()[:8]}"  # cookies are shared by all ports

    def run(self, listening: socket.socket) -> None:
        """Serve until SIGINT or SIGTERM; then each visitor's app is asked to leave."""
        web.run_app(self._make_app(), sock=listening, print=None, access_log=None, shutdown_timeout=LEAVING_S)

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self.checked)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """See textual-serve; the address is printed elsewhere."""

    async def on_shutdown(self, app: web.Application) -> None:
        """See textual-serve; the app of each page that is still open leaves, and is waited for."""
        visits = set(self._visits)
        for visit in visits:
            visit.cancel()
        if visits:
            await asyncio.wait(visits, timeout=LEAVING_S)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """See textual-serve."""
        visit = asyncio.current_task()
        assert visit is not None
        self._visits.add(visit)
        try:
            return await super().handle_websocket(_of_bounded_size(request))
        finally:
            self._visits.discard(visit)

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: AppService) -> None:
        """See textual-serve; a page that becomes larger is as bounded as one that opens."""
        resize = app_service.set_terminal_size

        async def bounded(width: object, height: object) -> None:
            await resize(*_bounded(width, height))

        app_service.set_terminal_size = bounded  # type: ignore[method-assign]
        await super()._process_messages(websocket, app_service)

    async def handle_index(self, request: web.Request) -> Any:
        """See textual-serve; the page connects to where it was opened, and asks for nothing elsewhere."""
        self.public_url = self._address.geturl() if self._address else f"http://{request.host}"
        page = await super().handle_index(request)
        assert isinstance(page, web.Response) and page.text is not None
        text = FONT_FROM_ELSEWHERE.sub("", page.text)
        page.text = text.replace("</head>", f"{NAMED}</head>").replace("</body>", f"{KEYS_AT_ONCE}</body>")
        return page

    @web.middleware
    async def checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer who may ask, and nobody else."""
        if (refused := self._refused(request)) is not None:
            response: web.StreamResponse = web.Response(status=403, text=f"distui serve: {refused}\n")
        elif "token" in request.query:
            response = web.Response(status=303, headers={"Location": "/"})
            secure = self._address is not None and self._address.scheme == "https"
            # Lax: browsers send a Strict one not even behind this redirect when the link was clicked on another page.
            # No such visit changes anything, and what other pages may not do is refused by its Origin.
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="Lax", secure=secure)
        else:
            response = await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _is_ours(self, page: SplitResult) -> bool:
        """Whether a page is one of the public address, however its name and its scheme's usual port are written."""
        return self._address is not None and _origin(page) == _origin(self._address)

    def _refused(self, request: web.Request) -> str | None:
        """Why a request is not answered, None when it is."""
        names = LOCAL if self._address is None else (*LOCAL, self._address.hostname)
        if urlsplit(f"//{request.host}").hostname not in names:
            return f"not reached under this name; it is {', '.join(str(name) for name in names)}"
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host and not self._is_ours(urlsplit(origin)):
            return "not for other pages"
        given = request.query.get("token") or request.cookies.get(self._cookie, "")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return "open the address that it printed when it was started, with its token"
        return None


def _of_bounded_size(request: web.Request) -> web.Request:
    """The request of a page, which asks for no more cells than can be painted."""
    width, height = _bounded(request.query.get("width"), request.query.get("height"))
    return request.clone(rel_url=request.rel_url.update_query(width=width, height=height))


def _bounded(width: object, height: object) -> tuple[int, int]:
    """Columns and rows as they are asked for, or the nearest that can be painted; 80x24 for what is no number."""
    wanted = (whole(str(width)), whole(str(height)))
    columns, rows = (usual if one is None else one for one, usual in zip(wanted, (80, 24), strict=True))
    return min(max(columns, 1), LARGEST[0]), min(max(rows, 1), LARGEST[1])


def _origin(page: SplitResult) -> tuple[str, str | None, int | None]:
    """Scheme, name and port as browsers compare them; a port that is none is nobody's."""
    try:
        port = page.port
    except ValueError:
        port = -1
    return page.scheme, page.hostname, port or {"http": 80, "https": 443}.get(page.scheme)
