"""What every screen has: actions and their keys, commands, palette, bars, the protocols of the app and its backend.

In: keys. Out: actions.
"""
