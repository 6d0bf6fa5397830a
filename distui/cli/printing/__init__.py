"""What verbs print: rank output, events in words, rows of hosts, figures and runs, one result for programs.

In: events, facts and runs as values. Out: lines, tables and JSON on stdout and stderr.
"""
