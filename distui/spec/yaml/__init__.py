"""Strict YAML: the reader, positions, problems, and what may stand at a key.

In: text. Out: trees of nodes that know where they were written, values that keys take, problems with line and caret.
"""
