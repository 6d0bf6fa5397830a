"""What the verbs do, a module each; `distui.cli.verbs` has their options and help."""
