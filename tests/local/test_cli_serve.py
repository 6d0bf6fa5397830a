"""`distui serve`: who is shown the app, and that it is the app."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import socket
import sys
import threading
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import ClientSession, CookieJar
from aiohttp.test_utils import TestServer

from distui.cli.actions.serve import app_argv
from distui.cli.options import CONSOLE
from distui.cli.runs import page as page_of_serve
from distui.cli.settings import ENV_FILE
from distui.cli.web import LEAVING_S, AppServer
from distui.errors import UsageError
from fakehosts.runs import until

TOKEN = "a-token-of-this-test"
HOSTS = "version: 1\nhosts:\n  node01: {addr: 127.0.0.1, port: 1}\n"


@asynccontextmanager
async def served(command: str = "true", proxy: str = "") -> AsyncIterator[tuple[ClientSession, str]]:
    """A browser without a cookie, and the address of the server."""
    server = AppServer(command, TOKEN, urlsplit(proxy) if proxy else None)
    async with (
        TestServer(await server._make_app()) as running,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as user,
    ):
        yield user, f"http://127.0.0.1:{running.port}"


@asynccontextmanager
async def visited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[ClientSession, str]]:
    """The same of the app with these hosts, by a browser that has opened the page."""
    (folder / "hosts.yaml").write_text(HOSTS)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    async with served(shlex.join(app_argv({"readonly": True}))) as (user, address):
        await (await user.get(f"{address}/?token={TOKEN}")).read()
        yield user, address


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js", "/download/x", "/?token=", "/?token=other"])
async def test_nothing_is_shown_without_the_token(path: str) -> None:
    """Neither the page nor what it is made of; the socket does not start an app."""
    async with served() as (user, address), user.get(address + path) as answer:
        assert answer.status == 403
        assert "token" in await answer.text()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "elsewhere.example"},
        {"Host": "127.0.0.1.elsewhere.example:8000"},
        {"Origin": "http://elsewhere.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
    ],
)
async def test_the_token_is_not_enough_from_elsewhere(headers: dict[str, str]) -> None:
    """A name made to lead here, a page of somebody else, also one on another port of this machine."""
    async with served() as (user, address), user.get(f"{address}/?token={TOKEN}", headers=headers) as answer:
        assert (answer.status, answer.cookies) == (403, {})


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js"])
@pytest.mark.parametrize("origin", ["http://elsewhere.example", "http://127.0.0.1:1", "null"])
async def test_the_cookie_is_not_enough_from_another_page(path: str, origin: str) -> None:
    """Which may lead here, no more: its own requests, above all a socket to the app, are refused."""
    async with served() as (user, address):
        await (await user.get(f"{address}/?token={TOKEN}")).read()
        async with user.get(address + "/") as page:
            assert page.status == 200
        async with user.get(address + path, headers={"Origin": origin}) as answer:
            assert answer.status == 403


async def test_the_address_with_the_token_opens_the_page_and_is_not_kept() -> None:
    """The token becomes a cookie that no script reads; the page fetches nothing from elsewhere and tells nobody."""
    async with served() as (user, address):
        async with user.get(f"{address}/?token={TOKEN}", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            (cookie,) = answer.cookies.values()
            assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax"), "also when it is a link on another page"
        async with user.get(address + "/") as page:
            assert page.status == 200
            text = await page.text()
            assert f"{address.replace('http', 'ws')}/ws" in text
            assert text.index('id="terminal"') < text.index("keys.focus()") < text.index("</body>")
            assert "<title>distui</title>" in text, "the tab has a name"
            named = set(re.findall(r"""(?:src|href)\s*=\s*["']([^"']+)""", text))
            assert 'rel="icon"' in text
            assert named, "scripts and style of the page"
            assert {urlsplit(one).netloc for one in named if not one.startswith("data:")} == {urlsplit(address).netloc}
            assert page.headers["Content-Security-Policy"].startswith("default-src 'self'")
            assert page.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("proxy", "origin", "status"),
    [
        ("https://ui.lab:443", "https://ui.lab", 303), ("https://UI.Lab", "https://ui.lab", 303),
        ("http://ui.lab:80", "http://ui.lab", 303), ("https://ui.lab", "https://ui.lab:8443", 403),
        ("https://ui.lab", "http://ui.lab", 403), ("https://ui.lab", "https://ui.lab:99999", 403),
    ],
)  # fmt: skip
async def test_an_address_is_the_same_however_it_is_written(proxy: str, origin: str, status: int) -> None:
    """A proxy that hands on its own name for us leaves the page's origin to be told by."""
    headers = {"Host": "127.0.0.1:8000", "Origin": origin}
    async with served(proxy=proxy) as (user, address):
        answer = await user.get(f"{address}/?token={TOKEN}", headers=headers, allow_redirects=False)
        assert answer.status == status


@pytest.mark.parametrize("host", ["ui.lab", "127.0.0.1:8000"])
async def test_behind_a_proxy_the_page_has_its_address(host: str) -> None:
    """Whether the proxy hands on the name it was asked by, or its own for us."""
    headers = {"Host": host, "Origin": "https://ui.lab"}
    async with served(proxy="https://ui.lab") as (user, address):
        async with user.get(f"{address}/?token={TOKEN}", headers=headers, allow_redirects=False) as answer:
            assert answer.status == 303
            (cookie,) = answer.cookies.values()
            assert cookie["secure"]
        async with user.get(address + "/", headers=headers, cookies={cookie.key: cookie.value}) as page:
            assert "wss://ui.lab/ws" in await page.text()


@pytest.mark.parametrize("leave", ["q", "close the page"])
async def test_a_visit_is_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave: str) -> None:
    """It is painted, obeys keys, has no shell to lend, and its process is gone with the page."""
    before = children()
    async with visited(tmp_path, monkeypatch) as (user, address):
        async with user.ws_connect(f"{address}/ws?width=100&height=30") as page:
            await shown(page, "node01", "Doctor")
            assert children() > before
            await page.send_json(["stdin", "s"])
            await shown(page, "no terminal for ssh")
            if leave == "q":
                await page.send_json(["stdin", "q"])
                while not page.closed:
                    await page.receive(60)
        async with asyncio.timeout(60):
            await until(lambda: children() <= before and not being_reaped())


@pytest.mark.parametrize("when", ["opens", "grows"])
async def test_a_page_of_any_size_is_shown_and_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """No more cells are painted than a screen has, or the process would paint on when its page has gone."""
    before = children()
    async with visited(tmp_path, monkeypatch) as (user, address):
        size = "width=100000&height=100000" if when == "opens" else "width=100&height=30"
        async with user.ws_connect(f"{address}/ws?{size}") as page:
            await shown(page, "node01")
            for wanted in ({"width": 100_000, "height": 100_000}, {"width": 90, "height": "x"}):
                await page.send_json(["resize", wanted])
            await page.send_json(["stdin", "s"])
            await shown(page, "no terminal for ssh")
        async with asyncio.timeout(60):
            await until(lambda: children() <= before and not being_reaped())


async def test_each_visit_is_an_app_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two pages one goes, as a browser that is killed does: the other's app goes on and obeys its keys."""
    before = children()
    async with visited(tmp_path, monkeypatch) as (user, address):
        async with user.ws_connect(f"{address}/ws?width=100&height=30") as stays:
            await shown(stays, "node01", "Doctor")
            (first,) = children() - before
            gone = await user.ws_connect(f"{address}/ws?width=80&height=24")
            await shown(gone, "node01", "Doctor")
            assert len(children() - before - {first}) == 1
            assert gone._writer.transport is not None
            gone._writer.transport.abort()  # without a word, as the kernel closes a dead browser's connections
            async with asyncio.timeout(60):
                await until(lambda: children() - before == {first})
            await stays.send_json(["stdin", "s"])
            await shown(stays, "no terminal for ssh")
            await gone.close()
        async with asyncio.timeout(60):
            await until(lambda: children() <= before and not being_reaped())


async def test_why_the_app_cannot_start_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inventory that was broken since the server was started: every line of it, without what a terminal obeys."""
    (tmp_path / "hosts.yaml").write_text('version: 1\nhosts:\n  node01: {prot: 22}\n  "a\\e[2Jb": 1\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = children()
    async with served(shlex.join(app_argv({}))) as (user, address):
        await (await user.get(f"{address}/?token={TOKEN}")).read()
        async with user.ws_connect(f"{address}/ws?width=100&height=30") as page:
            painted = await shown(page, "distui can't start:", "hosts.yaml:3", "prot", "Reload the page")
            assert "\x1b" not in painted
        async with asyncio.timeout(60):
            await until(lambda: children() <= before and not being_reaped())


BUG = "import distui.cli.main as m; m._call = lambda *words: 1 / 0; m.main(['tui'])"


@pytest.mark.parametrize(
    ("words", "config", "shown_as"),
    [
        (("--frobnicate",), "", ("no such option", "--frobnicate", "distui tui --help")),
        (("--view=nowhere",), "", ("'nowhere'", "hosts")),
        ((), "theme: [\n", ("config.yaml:",)),
        ((), 'keymap: {leave: nokey, "a\\e[2Jb": x}\ntimeout: soon\n', ("config.yaml:2", "timeout")),
        (("--env-file=gone.env",), "", ("gone.env",)),
        (("-i", "other.yaml"), "", ("other.yaml",)),
        ((), "bug", ("a bug in distui (ZeroDivisionError); details are in ",)),
    ],
)
async def test_whatever_ends_the_app_before_it_begins_is_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], config: str, shown_as: tuple[str, ...]
) -> None:
    """A mistake in the call, settings that were broken since the server was started, a bug."""
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    if config and config != "bug":
        (tmp_path / ".config" / "distui").mkdir(parents=True, mode=0o700)
        (tmp_path / ".config" / "distui" / "config.yaml").write_text(config)
    before = children()
    argv = (sys.executable, "-c", BUG) if config == "bug" else (*app_argv({}), *words)
    async with served(shlex.join(argv)) as (user, address):
        await (await user.get(f"{address}/?token={TOKEN}")).read()
        async with user.ws_connect(f"{address}/ws?width=100&height=30") as page:
            painted = await shown(page, "distui can't start:", *shown_as, "Reload the page")
            assert painted.count("distui can't start:") == 1 and "\x1b" not in painted
        async with asyncio.timeout(60):
            await until(lambda: children() <= before and not being_reaped())


@pytest.mark.parametrize("begun", [False, True])
def test_the_page_of_an_app_that_had_begun_is_left_alone(
    cli: Any, hosts: None, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """What it painted stays; stderr says the rest."""
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    monkeypatch.setattr(page_of_serve, "_painted", False)

    def failing(*_: object, **__: object) -> None:
        if begun:
            page_of_serve.app_begins()
        raise UsageError("odd")

    monkeypatch.setattr("distui.cli.actions.tui.act", failing)
    done = cli("tui")
    assert (done.code, "odd" in done.err) == (2, True)
    assert ("can't start" in done.out) is not begun


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_verb_serves_the_app_until_it_is_ended(tmp_path: Path, number: int) -> None:
    """As it is called, with an option of its own; an open page is not waited for, and its app goes, too."""
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = (sys.executable, "-m", "distui.cli.main", "serve", "--port", str(port), "--readonly")
    where = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    server = await asyncio.create_subprocess_exec(*argv, stderr=PIPE, cwd=tmp_path, env=where)
    assert server.stderr is not None
    try:
        async with asyncio.timeout(120), ClientSession(cookie_jar=CookieJar(unsafe=True)) as user:
            address = (await server.stderr.readline()).decode().split()[-1]
            assert address.startswith(f"http://127.0.0.1:{port}/?token=")
            await (await user.get(address)).read()
            async with user.ws_connect(f"http://127.0.0.1:{port}/ws?width=100&height=30") as page:
                await shown(page, "node01", "Doctor")
                apps = children(server.pid)
                assert apps
                began = time.monotonic()
                server.send_signal(number)
                while not page.closed:
                    await page.receive()
                assert await server.wait() == 0
                assert time.monotonic() - began < LEAVING_S
                await until(lambda: not any(Path(f"/proc/{app}").exists() for app in apps))
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


def children(of: int | None = None) -> set[str]:
    """Processes that this one, or another, has started and not yet waited for."""
    process = of or os.getpid()
    return set(Path(f"/proc/{process}/task/{process}/children").read_text().split())


def being_reaped() -> bool:
    """Whether asyncio has yet to hear of a process that it waits for, in a thread of its own (before Python 3.12)."""
    return any("waitpid" in thread.name for thread in threading.enumerate())


async def shown(page: Any, *words: str) -> str:
    """What the page was painted, until all these words are there."""
    painted = ""
    async with asyncio.timeout(120):
        while not all(word in painted for word in words):
            message = await page.receive()
            assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message
            if message.type == aiohttp.WSMsgType.BINARY:
                painted += re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", message.data.decode())
    return painted


def test_global_options_reach_the_app_as_they_were_given() -> None:
    """A value is one word, whatever is in it; what is for `serve` itself is left out."""
    given: dict[str, Any] = {
        "host": ("n[1-2]", "@a; true"),
        "hosts_file": "my hosts.yaml",
        "ascii": True,
        "verbose": 2,
        "yes": True,
    }
    given |= {ENV_FILE: {"TOKEN": "secret"}, CONSOLE: object()}
    assert app_argv(given) == (
        sys.executable, "-m", "distui.cli.main", "tui", "--host=n[1-2]", "--host=@a; true",
        "--hosts-file=my hosts.yaml", "--ascii", "-v", "-v",
    )  # fmt: skip


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with an inventory."""
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    monkeypatch.chdir(tmp_path)


def test_a_port_that_is_taken_is_said(cli: Any, hosts: None) -> None:
    """Before an address is printed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = cli("serve", "--port", str(taken.getsockname()[1]))
    assert (done.code, done.out) == (2, "")
    assert "Address already in use\n" in done.err
    assert "--port" in done.err and "token" not in done.err


@pytest.mark.parametrize(
    "url",
    [
        "ui.lab",
        "ftp://ui.lab",
        "https://ui.lab/path",
        "https://me@ui.lab",
        "https://?x",
        "http://[",
        "http://a:99999",
        "http://a#x",
    ],
)
def test_a_public_url_is_scheme_and_name(cli: Any, hosts: None, url: str) -> None:
    """The page lies at the root of its address."""
    done = cli("serve", "--public-url", url)
    assert done.code == 2
    assert "--public-url" in done.err


def test_without_the_extra_it_says_what_to_install(cli: Any, hosts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """textual-serve is not among what everybody installs."""
    for name in ("textual_serve", "textual_serve.server", "distui.cli.web"):
        monkeypatch.setitem(sys.modules, name, None)
    done = cli("serve")
    assert done.code == 2
    assert "distui[serve]" in done.err
