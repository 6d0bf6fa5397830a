"""The command line: verbs and the headless printer.

In: arguments, settings, a terminal or pipes. Out: data on stdout, messages on stderr, an exit code.
Here lies what every verb needs; `verbs` has a module with options and help for each, light, `actions` one with what it
does. What several actions share, lowest first: `printing`, `jobs`, `runs`, `demo`.
"""
