"""A stranger's job file: no value of a variable and no folder of this machine goes anywhere before its user said so."""

from __future__ import annotations

import base64
import os
import pty
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from distui import config
from distui.consent import Ask, Consents
from distui.errors import SpecError, UsageError
from distui.spec.job.read_job import read_job

HEAD = "version: 1\nname: j\nhosts: h1\nimage: x\ncommand: [a]\n"
SECRET = "s3cret-value"


class Thief(ThreadingHTTPServer):
    """A git host of the job's author: wants a password, and notes whatever is sent."""

    def __init__(self, redirect: str = "") -> None:
        self.asked: list[str] = []
        self.tokens: list[str] = []
        thief = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                thief.asked.append(self.path)
                if word := self.headers.get("Authorization"):
                    thief.tokens.append(base64.b64decode(word.partition(" ")[2]).decode())
                self.send_response(302 if redirect else 401)
                self.send_header("Location", f"{redirect}{self.path}")
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()


@pytest.fixture
def thieves() -> Iterator[Callable[..., Thief]]:
    made: list[Thief] = []

    def make(redirect: str = "") -> Thief:
        made.append(Thief(redirect))
        return made[-1]

    yield make
    for thief in made:
        thief.close()


@pytest.fixture
def place(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an inventory of a host that is not there."""
    monkeypatch.setenv("CLOUD_KEY", SECRET)
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  h1: {addr: 127.0.0.1, port: 9}\n")
    return Path.cwd()


def job(code: str) -> None:
    Path("job.yaml").write_text(f"{HEAD}{code}\n")


@pytest.mark.parametrize(
    "words", [("plan", "job.yaml"), ("-y", "plan", "job.yaml"), ("-y", "run", "--headless", "job.yaml")]
)
def test_no_token_goes_to_a_host_that_was_not_allowed(
    cli: Any, place: Path, thieves: Callable[..., Thief], words: tuple[str, ...]
) -> None:
    """Not even a question reaches the host; `-y` is no answer; the words say how to allow it."""
    thief = thieves()
    job(f"code: {{git: 'http://{thief.host}/x.git', token: CLOUD_KEY}}")
    done = cli(*words)
    assert done.code == 2
    assert (thief.asked, thief.tokens) == ([], [])
    assert f"the value of your variable CLOUD_KEY would be sent to {thief.host}" in done.err
    assert f"distui config allow token CLOUD_KEY {thief.host}" in done.err
    assert SECRET not in done.out + done.err


def test_a_pair_that_was_allowed_is_remembered(
    cli: Any, place: Path, home: Path, thieves: Callable[..., Thief]
) -> None:
    """By variable and host: neither another variable nor another host is allowed by it. It can be taken back."""
    friend, thief = thieves(), thieves()
    job(f"code: {{git: 'http://{friend.host}/x.git', token: CLOUD_KEY}}")
    assert cli("config", "allow", "token", "CLOUD_KEY", friend.host).code == 0
    kept = home / ".local/state/distui/allowed.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert cli("plan", "job.yaml").code == 3
    assert f"oauth2:{SECRET}" in friend.tokens
    job(f"code: {{git: 'http://{thief.host}/x.git', token: CLOUD_KEY}}")
    assert cli("plan", "job.yaml").code == 2
    job(f"code: {{git: 'http://{friend.host}/x.git', token: PATH}}")
    assert cli("plan", "job.yaml").code == 2
    assert thief.asked == []
    assert f"token  CLOUD_KEY  {friend.host}" in cli("config", "allowed").out
    assert cli("config", "forget", "token", "CLOUD_KEY", friend.host).code == 0
    assert cli("config", "forget", "token", "CLOUD_KEY", friend.host).code == 7
    assert SECRET not in kept.read_text()


def test_the_user_s_config_allows_pairs_and_a_project_s_does_not(
    cli: Any, place: Path, home: Path, thieves: Callable[..., Thief], monkeypatch: pytest.MonkeyPatch
) -> None:
    thief = thieves()
    job(f"code: {{git: 'http://{thief.host}/x.git', token: CLOUD_KEY}}")
    Path("distui.yaml").write_text(f"allow_tokens: CLOUD_KEY@{thief.host}\n")
    done = cli("plan", "job.yaml")
    assert (done.code, thief.asked) == (2, [])
    assert "./distui.yaml:1: allow_tokens is ignored" in done.err
    monkeypatch.setenv("DISTUI_ALLOW_TOKENS", f"OTHER@x, CLOUD_KEY@{thief.host}")
    assert cli("plan", "job.yaml").code == 3
    assert thief.tokens


def test_a_redirect_does_not_get_the_token(cli: Any, place: Path, thieves: Callable[..., Thief]) -> None:
    """Allowed is a host, not wherever it leads."""
    thief = thieves()
    friend = thieves(redirect=f"http://{thief.host}")
    job(f"code: {{git: 'http://{friend.host}/x.git', token: CLOUD_KEY}}")
    cli("config", "allow", "token", "CLOUD_KEY", friend.host)
    assert cli("plan", "job.yaml").code == 3
    assert friend.asked
    assert (thief.asked, thief.tokens) == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        "code: {{git: 'http://{host}/${{CLOUD_KEY}}/x.git'}}",
        "code: {{git: 'http://{host}/x.git?${{NONE:-${{CLOUD_KEY}}}}'}}",
        "env: {{A: &a 'http://{host}/${{CLOUD_KEY}}'}}\ncode: {{git: *a}}",
        "code: {{git: 'http://{host}/x.git', ref: '${{CLOUD_KEY}}'}}",
        "data: {{d: {{url: 'http://{host}/${{CLOUD_KEY}}', to: /d}}}}",
        "data: {{d: {{url: 's3://b/x', endpoint: 'http://{host}/${{CLOUD_KEY}}', to: /d}}}}",
        "data: {{d: {{nfs: '${{CLOUD_KEY}}.{host}:/x', to: /d}}}}",
    ],
)
def test_what_other_machines_see_takes_no_variable(
    cli: Any, place: Path, thieves: Callable[..., Thief], text: str
) -> None:
    """Also by a default, and through an alias from where variables may stand."""
    thief = thieves()
    job(text.format(host=thief.host))
    done = cli("plan", "job.yaml")
    assert (done.code, thief.asked) == (2, [])
    assert "takes no variable of yours" in done.err
    assert SECRET not in done.out + done.err


def test_a_dollar_that_is_none_of_ours_stays() -> None:
    """`$$` and a lone `$` name no variable."""
    found = read_job(f"{HEAD}code: {{git: 'https://h/a$$b$c/x.git'}}", "j.yaml", environ={})
    assert found.code is not None
    assert found.code.git == "https://h/a$b$c/x.git"


@pytest.mark.parametrize("url", ["https://evil.example\\@good.example/x", "https://good.example:x/", "https://a b/x"])
def test_a_url_whose_host_programs_disagree_about_is_none(url: str) -> None:
    with pytest.raises(SpecError, match="URL"):
        read_job(f"{HEAD}code: {{git: '{url}', token: T}}", "j.yaml", environ={})


# images


IMAGES = {
    "image: evil.example/x:${CLOUD_KEY}": "evil.example",
    "image: Evil.Example:5000/x/y:v-${CLOUD_KEY}": "evil.example:5000",
    "image: x:${CLOUD_KEY}": "docker.io",
    "image: evil/${CLOUD_KEY}/x": "docker.io",
    "image: localhost/x:${CLOUD_KEY:-1}": "localhost",
    "image: evil.example/x:${NONE:-${CLOUD_KEY}}": "evil.example",
    "image: evil.example/x:${CLOUD_KEY:+${CLOUD_KEY}}": "evil.example",
    "image: ${CLOUD_KEY}.evil.example/x": "${CLOUD_KEY}.evil.example",
    "image: evil.example:${CLOUD_PATH}": "evil.example:${CLOUD_PATH}",
    "image: ${CLOUD_KEY}:1": "${CLOUD_KEY}",
    "env: {A: &a 'evil.example/x:${CLOUD_KEY}'}\nimage: *a": "evil.example",
}
"""What a job says -> who would see the value."""


def image_job(text: str) -> None:
    Path("job.yaml").write_text(HEAD.replace("image: x\n", "") + f"{text}\n")


@pytest.mark.parametrize("text", IMAGES)
def test_no_variable_goes_to_an_image_s_registry_before_it_was_allowed(
    cli: Any, place: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """For that variable and that registry; the value is shown nowhere, also where it is the registry's name."""
    to, name = IMAGES[text], "CLOUD_PATH" if "CLOUD_PATH" in text else "CLOUD_KEY"
    monkeypatch.setenv("CLOUD_PATH", f"5000/{SECRET}")
    image_job(text)
    for words in (("plan", "job.yaml"), ("-y", "run", "--headless", "job.yaml"), ("image", "ls", "job.yaml")):
        done = cli(*words)
        assert done.code == 2
        assert f"the value of your variable {name} would be sent to {to}, which you have not allowed" in done.err
        assert SECRET not in done.out + done.err
    assert cli("config", "allow", "token", name, "other.example").code == 0
    assert cli("plan", "job.yaml").code == 2
    assert cli("config", "allow", "token", name, to).code == 0
    assert cli("plan", "job.yaml").code == 4
    assert cli("config", "forget", "token", name, to).code == 0
    assert cli("plan", "job.yaml").code == 2


def test_images_that_need_no_word(cli: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A default of the file's own, an image that the person typed, one that is built, and what their config lists."""
    image_job("image: evil.example/x:${NONE:-1}")
    assert cli("plan", "job.yaml").code == 4
    image_job("image: evil.example/x:${EMPTY}")
    monkeypatch.setenv("EMPTY", "")
    assert "EMPTY would be sent" not in cli("plan", "job.yaml").err
    image_job("image: evil.example/x:${CLOUD_KEY}")
    assert cli("plan", "job.yaml", "--image", "x").code == 4
    assert cli("plan", "job.yaml", "--set", "image=x").code == 4
    monkeypatch.setenv("DISTUI_ALLOW_TOKENS", "CLOUD_KEY@evil.example, CLOUD_KEY@${CLOUD_KEY}")
    assert cli("plan", "job.yaml").code == 4
    image_job("image: ${CLOUD_KEY}/x:1")
    assert cli("plan", "job.yaml").code == 4
    monkeypatch.delenv("DISTUI_ALLOW_TOKENS")
    (place / "Dockerfile").write_text("FROM scratch\n")
    for more in ("build: .", "pull: never"):  # no registry hears of it
        image_job(f"image: x:${{CLOUD_KEY}}\n{more}")
        assert cli("plan", "job.yaml").code == 4


# folders


@pytest.fixture
def code(home: Path) -> Path:
    """A folder beside the job's."""
    folder = home.parent / "private"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine\n")
    (folder / "Dockerfile").write_text("FROM scratch\n")
    return folder


@pytest.mark.parametrize(
    "key", ["code: {path}", "code: {{path: '{path}'}}", "build: {path}", "code: {{git: '{path}'}}"]
)
def test_a_folder_outside_the_job_s_is_taken_by_nobody_unasked(cli: Any, place: Path, code: Path, key: str) -> None:
    """Named, by a link, relative, as code or build; allowed for this job folder only."""
    (place / "link").symlink_to(code)
    for path in (code, "../private", "./link"):
        if "git" not in key or path == code:
            job(key.format(path=path))
            done = cli("-y", "plan", "job.yaml")
            assert done.code == 2
            assert f"files of {code}, which is outside the job's folder {place}, would be sent" in done.err
            assert f"distui config allow folder {code} {place}" in done.err
    assert cli("config", "allow", "folder", str(code), str(place)).code == 0
    assert "outside the job's folder" not in cli("plan", "job.yaml").err


def test_what_is_the_job_s_own_needs_no_word(cli: Any, place: Path, code: Path) -> None:
    """Its folder, its repository around it, and a folder named on the command line."""
    (place / "src").mkdir()
    (place / "src" / "a.py").write_text("")
    (place / "jobs").mkdir()
    job("code: ./src")
    assert cli("plan", "job.yaml").code == 4
    (place / "jobs" / "job.yaml").write_text(f"{HEAD}code: ../src\n")
    assert cli("plan", "jobs/job.yaml").code == 2
    (place / ".git").mkdir()
    assert cli("plan", "jobs/job.yaml").code == 4
    assert cli("plan", "jobs/job.yaml", "--set", f"code.path={code}").code == 4


@pytest.mark.parametrize(
    "path",
    [
        "~", "~/.ssh", "~/.aws/sub", "~/..", "/", "/etc", "~/.config/distui", "~/.config", "~/.local", "~/.local/share",
        "~/.local/state", "~/.config/op", "~/.cargo", "/var", "/run",
    ],
)  # fmt: skip
def test_folders_full_of_secrets_are_never_sent(cli: Any, place: Path, home: Path, path: str) -> None:
    """Not after a yes, nor when typed; only when the user's own config lists them."""
    Path(path).expanduser().mkdir(parents=True, exist_ok=True)
    job(f"code: '{path}'")
    real = str(Path(path).expanduser().resolve())
    cli("config", "allow", "folder", real, str(place))
    for words in ((), ("--set", f"code.path={real}")):
        done = cli("plan", "job.yaml", *words)
        assert done.code == 2
        assert f"code: {real} is never sent" in done.err
    if path == "~/.ssh":
        (home / ".config/distui").mkdir(parents=True, exist_ok=True)
        (home / ".config/distui/config.yaml").write_text("allow_folders: ~/.ssh\n")
        assert cli("plan", "job.yaml").code == 4


@pytest.mark.parametrize("path", ["~/dotfiles/ssh", "~/dotfiles"])
def test_a_folder_of_secrets_that_is_a_link_is_one_where_it_leads(cli: Any, place: Path, home: Path, path: str) -> None:
    (home / "dotfiles" / "ssh").mkdir(parents=True)
    (home / ".ssh").symlink_to("dotfiles/ssh")
    job(f"code: '{path}'")
    cli("config", "allow", "folder", str(Path(path).expanduser()), str(place))
    done = cli("plan", "job.yaml")
    assert done.code == 2
    assert f"code: {Path(path).expanduser()} is never sent" in done.err


def test_other_folders_of_the_home_are_asked_about(cli: Any, place: Path, home: Path) -> None:
    """Also in ~/.config: what is no secret's can be allowed."""
    (home / ".config" / "nvim").mkdir(parents=True)
    job("code: ~/.config/nvim")
    assert "would be sent to the hosts" in cli("plan", "job.yaml").err
    cli("config", "allow", "folder", str(home / ".config" / "nvim"), str(place))
    assert cli("plan", "job.yaml").code == 4


def test_a_job_from_standard_input_has_no_folder(place: Path, code: Path) -> None:
    """Where it was called is nothing it may take."""
    done = distui("plan", "-", given=f"{HEAD}code: {code}\n")
    assert done.returncode == 2
    assert "outside the job's folder standard input" in done.stderr


def distui(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-c", "import sys; from distui.cli.main import main; sys.exit(main())", *words)
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(argv, input=given, capture_output=True, text=True, env=env)


@pytest.mark.parametrize(("answer", "allowed"), [("y\n", True), ("\n", False), ("no\n", False)])
def test_on_a_terminal_it_is_asked_once(
    place: Path, home: Path, thieves: Callable[..., Thief], answer: str, allowed: bool
) -> None:
    """`-y` does not answer it. A yes holds from then on."""
    thief = thieves()
    job(f"code: {{git: 'http://{thief.host}/x.git', token: CLOUD_KEY}}")
    code, said = on_a_terminal(("-y", "plan", "job.yaml"), "Allow it, now and later? [y/N]", answer)
    assert bool(thief.tokens) is allowed
    assert code == (3 if allowed else 2)
    assert "CLOUD_KEY would be sent to" in said
    if allowed:
        assert Consents(home / ".local/state/distui/allowed.json").has(Ask("token", "CLOUD_KEY", thief.host))
        assert distui("plan", "job.yaml").returncode == 3


EVIL_NAMES = (
    "x\rjob j: files of srv would be read by you",
    "x\ndistui: all is well",
    "x\x1b[2K\x1b[1A",
    "x\u202etxt.eliforp",
    "it's\\\x07",
)
"""Names of folders that would hide, or write over, which folder is asked about."""


def seen(path: Path) -> str:
    """Control characters as their bytes."""
    return "".join(c if c.isprintable() else "".join(f"\\x{b:02x}" for b in c.encode()) for c in str(path))


@pytest.mark.parametrize("name", EVIL_NAMES)
@pytest.mark.parametrize("whose", ["the job's", "the code's"])
def test_a_folder_s_name_can_not_change_the_question(
    cli: Any, home: Path, code: Path, place: Path, name: str, whose: str
) -> None:
    """On a terminal and in the refusal both folders stand there whole; what allows it is one line for the shell."""
    beside, taken = (place / name, code) if whose == "the job's" else (place, home.parent / name)
    for folder in (beside, taken):
        folder.mkdir(exist_ok=True)
    (beside / "link").symlink_to(taken)
    (beside / "job.yaml").write_text(f"{HEAD}code: ./link\n")
    done = distui("plan", str(beside / "job.yaml"))
    assert done.returncode == 2
    asked = (
        f"job j: files of {seen(taken)}, which is outside the job's folder {seen(beside)}, would be sent to the hosts"
    )
    (line,) = [line for line in done.stderr.splitlines() if "would be sent" in line]
    assert asked in line
    assert not any(char in done.stderr for char in "\r\x1b\u202e\x07")
    code_of, said = on_a_terminal(("plan", str(beside / "job.yaml")), "Allow it, now and later? [y/N]", "n\n")
    assert code_of == 2
    assert f"{asked}. Allow it" in said.replace("\r\n", "")
    (hint,) = [line.partition("try: ")[2] for line in done.stderr.splitlines() if "try: " in line]
    reported = ("bash", "-c", hint.replace("distui config allow folder", "printf '%s\\0'"))
    assert subprocess.run(reported, capture_output=True, check=True).stdout.decode().split("\0")[:2] == [
        str(taken),
        str(beside),
    ]


def on_a_terminal(words: tuple[str, ...], question: str, answer: str) -> tuple[int, str]:
    """Call distui on a terminal of its own and answer one question."""
    ours, theirs = pty.openpty()
    argv = (sys.executable, "-c", "import sys; from distui.cli.main import main; sys.exit(main())", *words)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "TERM": "dumb"}
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        said, answered = "", False
        while select.select([ours], [], [], 60)[0]:
            try:
                said += os.read(ours, 4096).decode()
            except OSError:  # its end was closed
                break
            if question in said and not answered:
                os.write(ours, answer.encode())
                answered = True
        code = process.wait()
    os.close(ours)
    assert answered, said
    return code, said


# the file of answers, and the project's config


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"allowed": [["token", "A"]]}', '{"allowed": [["all", "A", "b"]]}', "[" * 9999]
)
def test_a_file_of_answers_that_is_damaged_allows_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "allowed.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is damaged"):
        Consents(path).has(Ask("token", "A", "b"))


def test_a_folder_that_is_a_link_to_itself_is_allowed_as_any_other(tmp_path: Path) -> None:
    """The user's config may name one that is not there, too."""
    (tmp_path / "loop").symlink_to("loop")
    allowed = Consents(tmp_path / "allowed.json", folders=[tmp_path / "loop"])
    assert allowed.lists(tmp_path / "loop" / "code")
    assert not allowed.lists(tmp_path / "code")


def test_a_project_s_config_sets_looks_and_limits_only(cli: Any, place: Path) -> None:
    """A cloned repository's ./distui.yaml answers no question, names no inventory, and rebinds no key; it is said."""
    Path("other.yaml").write_text("version: 1\nhosts: {evil: {}}\n")
    Path("distui.yaml").write_text(
        "yes: true\nhosts_file: other.yaml\nkeymap: {stop: j}\nparallel: 3\nreadonly: false\n"
    )
    done = cli("hosts", "ls", "-o", "name")
    assert done.out.split() == ["h1"]
    for line, key in ((1, "yes"), (2, "hosts_file"), (3, "keymap"), (5, "readonly")):
        assert f"distui: ./distui.yaml:{line}: {key} is ignored: it only counts in your own config file" in done.err
    found = config.load({}, {"HOME": str(place), "DISTUI_READONLY": "1"}, place)
    assert [found[key].value for key in ("yes", "hosts_file", "parallel", "readonly")] == [False, None, 3, True]
    Path("distui.yaml").write_text("readonly: true\n")
    assert config.load({}, {"HOME": str(place)}, place)["readonly"].value is True
