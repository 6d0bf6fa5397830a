"""The terminal itself, where textual is not enough: slow ones, bursts of keys, the clipboard, other programs in it."""
