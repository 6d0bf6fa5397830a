"""The command line: verbs and the headless printer."""
