"""Commands reach any POSIX sh byte for byte, and what a login shell prints never gets into the answer."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distui.remote.framing import REMOTE_COMMAND, Unframe, command_line, new_mark, script_lines

LOGIN_SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "mksh", "fish", "tcsh", "csh") if shutil.which(shell)]

NASTY = (
    "a b", "it's", '"', "$HOME", "$(id)", "`id`", "!!", "!", "\n", "a\nb\n", "\\", "\\n", "*", "~", "-n", "", "%s",
    "é", "ā\x81", "\udcff\udc81", "#", ";", "|&<>", "{a,b}", "^", "\t", "\x1b[31m", "=x", "A=b",
)  # fmt: skip


def through(shell: str, stdin: bytes, **env: str) -> subprocess.CompletedProcess[bytes]:
    argv, environ = [shell, "-c", REMOTE_COMMAND], {**os.environ, **env}
    return subprocess.run(argv, input=stdin, capture_output=True, env=environ, timeout=60, check=False)


def answer(done: subprocess.CompletedProcess[bytes], mark: str) -> bytes:
    frame = Unframe(mark)
    out = frame.feed(done.stdout)
    assert frame.found, done
    assert frame.pid > 0
    return out


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
def test_every_login_shell_passes_argv_and_stdin_on_unharmed(shell: str) -> None:
    """Quotes, newlines, invalid UTF-8 and history marks arrive as given, under every shell that is installed."""
    mark = new_mark()
    argv = ("sh", "-c", 'for word; do printf "%s\\0" "$word"; done; cat', "sh", *NASTY)
    done = through(shell, command_line(mark, argv) + b"input \0\xff\n")
    words = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in NASTY)
    assert answer(done, mark) == words + b"input \0\xff\n"


@pytest.mark.parametrize("shell", [found for name in LOGIN_SHELLS if (found := shutil.which(name))])
@pytest.mark.parametrize("path", ["/nowhere", ""])
def test_a_login_whose_path_leads_nowhere_runs_commands(shell: str, path: str) -> None:
    """Its start-up files may set it to anything: `sh` was not found."""
    mark = new_mark()
    done = through(shell, command_line(mark, ("sh", "-c", "printf said | cat")), PATH=path)
    assert answer(done, mark) == b"said"


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
@settings(max_examples=25)
@example(["\x81\x82\x88", "\n\n"])
def test_any_words_arrive_byte_for_byte(words: list[str]) -> None:
    """Whatever text an argument holds, the command gets exactly that."""
    mark = new_mark()
    done = through("sh", command_line(mark, ("printf", "%s\\0", "end", *words)))
    assert answer(done, mark) == b"".join(word.encode() + b"\0" for word in ("end", *words))


def test_neither_argv_nor_input_is_an_argument_of_a_shell() -> None:
    """What sshd hands to the login shell is the same text for every command."""
    assert "secret" not in REMOTE_COMMAND
    mark = new_mark()
    show = ("sh", "-c", "tr '\\0' ' ' </proc/$PPID/cmdline; cat >/dev/null")
    done = through("sh", command_line(mark, show) + b"secret")
    assert b"secret" not in answer(done, mark)


def test_a_script_may_have_lines_here_documents_and_an_exit_status() -> None:
    """run_script evaluates the whole text in one sh and reports its status."""
    mark = new_mark()
    done = through("sh", script_lines(mark, "cat <<END\n$((1+1))\nEND\nexit 7"))
    assert (answer(done, mark), done.returncode) == (b"2\n", 7)


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
def test_a_shell_that_a_start_up_file_put_in_the_place_of_sh_splits_words_as_sh_does(shell: str) -> None:
    """`exec zsh` in .bashrc: it reads our lines from its stdin. Others that are no sh say so."""
    mark = new_mark()
    lines = script_lines(mark, """two="a b"; set -- $two; echo $#""")
    done = subprocess.run([shell], input=lines, capture_output=True, timeout=60, check=False)
    frame = Unframe(mark)
    out = frame.feed(done.stdout)
    assert out == b"2\n" if frame.found else done.returncode != 0, done


def test_a_shell_that_takes_unset_variables_for_errors_goes_on() -> None:
    """SHELLOPTS that a start-up file exports with `set -u`, where sh is bash."""
    mark, env = new_mark(), {"PATH": os.environ["PATH"], "SHELLOPTS": "nounset"}
    lines = script_lines(mark, "echo 2")
    done = subprocess.run(["bash"], input=lines, env=env, capture_output=True, timeout=60, check=False)
    assert answer(done, mark) == b"2\n", done


@pytest.mark.parametrize("argv", [(), ("a\0b",)])
def test_what_no_process_can_be_given_is_refused(argv: tuple[str, ...]) -> None:
    """No words, or a NUL in one, is an error here and not something else on the host."""
    with pytest.raises(ValueError, match="at least one word"):
        command_line("mark", argv)


@given(st.binary(max_size=60), st.binary(max_size=60), st.lists(st.integers(1, 9), max_size=40))
def test_the_mark_is_found_however_the_bytes_are_cut(noise: bytes, said: bytes, cuts: list[int]) -> None:
    """Noise before the mark is dropped and the answer kept, in whatever pieces the network delivers them."""
    frame, out, rest = Unframe("MARK"), b"", noise + b"MARK 42\n" + said
    for cut in cuts:
        out += frame.feed(rest[:cut])
        rest = rest[cut:]
    out += frame.feed(rest)
    assert (out, frame.pid, frame.dropped, frame.seen()) == (said, 42, len(noise), noise)


def test_endless_noise_is_counted_but_not_kept() -> None:
    """A login shell that prints for ever costs no memory."""
    frame = Unframe("MARK")
    for _ in range(100):
        frame.feed(b"x" * 10_000)
    assert frame.dropped > 900_000
    assert len(frame.noise) <= 2048
    assert len(frame._held) < 100


POSIX_SHELLS = [found for shell in ("dash", "bash", "busybox", "mksh", "zsh") if (found := shutil.which(shell))]


@pytest.mark.parametrize("shell", POSIX_SHELLS)
def test_every_posix_shell_will_do_as_the_sh_of_a_host(shell: str, tmp_path: Path) -> None:
    """`sh` is dash, bash, busybox or another: argv and stdin arrive unharmed by way of all of them."""
    (tmp_path / "sh").symlink_to(shell)
    mark = new_mark()
    line = command_line(mark, ("printf", "%s\\0", *NASTY)) + b"rest"
    command = REMOTE_COMMAND.replace("/bin/sh", str(tmp_path / "sh"))
    done = subprocess.run(["/bin/sh", "-c", command], input=line, capture_output=True, timeout=60, check=False)
    assert answer(done, mark) == b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in NASTY)
