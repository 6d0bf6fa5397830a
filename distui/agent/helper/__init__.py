"""The program that distui runs on each host while a run lives: logs, exits and measurements through one channel."""
