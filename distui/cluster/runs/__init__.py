"""Runs as a program sees them: listed, followed, waited for, ended. What comes out are `Run` and `EndedRun`."""
