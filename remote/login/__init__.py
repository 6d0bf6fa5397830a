"""From a host's settings to a connection that is logged in: TCP, algorithms, host keys, login keys, errors in words.

Comes in: where and as whom to log in. Goes out: an asyncssh connection, or a sentence that says what to do.
"""
