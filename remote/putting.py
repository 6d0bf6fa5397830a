"""Writing a small file on a host so that nobody ever sees half of it."""

from __future__ import annotations

_PUT = """\
p=$1 size=$2 mode=$3 nonce=$4
case $p in "~/"*) p=$HOME/${p#??};; esac
d=${p%/*}; d=${d:-/}
umask 077
fail() { echo "$1" >&2; exit 1; }
mkdir -p -- "$d" || exit 1
[ ! -d "$p" ] || fail "$p is a folder"
t=$d/.distui-$nonce
remove='trap "" HUP INT TERM PIPE; rm -f -- "$t"'
trap "$remove" EXIT
trap "$remove; exit 1" HUP INT TERM PIPE
set -C
exec 3>"$t" 4<&0 || exit 1
cat <&4 >&3 &
wait "$!" || exit 1
[ "$(wc -c <"$t")" -eq "$size" ] || fail "only a part of it arrived"
chmod "$mode" "$t" && mv -f -- "$t" "$p"
"""
"""noclobber opens with O_EXCL, so a planted link is not followed; the size is checked because a connection that
breaks looks like the end of the data. The shell makes the file itself, and `wait` ends at a signal: a child that was
forked as the signal came may never get it. `rm` ignores signals: a second one to the group would end it."""


def put_argv(path: str, size: int, mode: int, nonce: str) -> tuple[str, ...]:
    """The command that reads a file of `size` bytes from its stdin and puts it at `path`."""
    return ("sh", "-c", _PUT, "distui-put", path, str(size), f"{mode:04o}", nonce)
