"""How a claim and its age are read on a host, where it may lie in a place to which anybody can write: /tmp."""

AGED = r"""
aged() {
  changed=$(stat -c %Y -- "$1" 2>/dev/null) && age=$(($(date +%s) - changed)) || return 1
  [ "$age" -gt "$(($2 * 60))" ] || [ "$age" -lt -60 ]
}
written() {
  for moment in 1 2 3 4 5 6 7 8 9 10; do
    [ -d "$1" ] && [ ! -s "$1/launch" ] && [ ! -e "$1/launched" ] || return 0
    sleep 0.1 2>/dev/null || { sleep 1; return 0; }
  done
}
"""
"""Whether $1 was not changed for $2 minutes. What is dated in the future counts as old: it would never be.

`written` waits a moment for whoever has just made the directory $1, and has still to write who that is.
"""

HEAD_OF = r"""
head_of() {
  [ -f "$1" ] && [ ! -L "$1" ] || return
  if command -v timeout >/dev/null 2>&1; then timeout 2 dd if="$1" bs="$2" count=1; else dd if="$1" bs="$2" count=1; fi
} 2>/dev/null
"""
"""Prints the first $2 bytes of the plain file $1. Another login may put a pipe in its place as it is opened: nobody
writes to that, and whoever waits for it starts nothing.
"""

CLAIM = (
    HEAD_OF
    + r"""
claim() { head_of "$1" 400; }
line() {
  number=0 text=
  while [ "$number" -lt "$1" ] && { IFS= read -r text || [ -n "$text" ]; }; do number=$((number + 1)); done
  [ "$number" -lt "$1" ] || printf '%s\n' "$text"
}
claim_line() { claim "$1" | line "$2"; }
"""
    + AGED
)
"""Shell functions: the claim in a file, one line of it (owner, since when, token), which no tool has to find, and
whether it is too old.

Whatever is no plain file holds no claim: a pipe would keep its reader waiting, a device or a huge file fill it. 400
bytes are more than any claim has.
"""

MAKE = r"""
whole() { trap '' HUP INT TERM PIPE; "$@"; }
make() {
  mkdir -- "$1" || return
  { printf '%s\n' "$2" | cat >"$1/launch"; } || { rm -rf -- "$1"; return 2; }
}
"""
"""`make` makes the directory $1 with the claim $2 in it; 2 when only that can't be written, and it is gone again.

A call that is given up gets a signal: between the two it would leave a directory that is nobody's, which counts for
minutes. `whole`, in a subshell, does something to its end.
"""
