"""What is started for each task: its environment and its argv, for docker, podman or as plain processes.

Comes in: placed ranks and their network. Goes out: argv tuples and variables; no shell text, no secret.
"""
