"""How a claim is read on a host, where it may lie in a place to which anybody can write: /tmp."""

CLAIM = r"""
claim() { [ -f "$1" ] && [ ! -L "$1" ] && head -c 400 "$1" 2>/dev/null; }
claim_line() { claim "$1" | sed -n "$2p"; }
"""
"""Shell functions: the claim in a file, and one line of it (owner, since when, token).

Whatever is no plain file holds no claim: a pipe would keep its reader waiting, a device or a huge file fill it. 400
bytes are more than any claim has.
"""
