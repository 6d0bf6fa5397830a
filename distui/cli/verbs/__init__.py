"""One module for each verb; `distui.cli.app` imports a verb's module when it is called."""
