"""distui: one distributed training run over many ssh hosts, from a terminal or a script."""

__version__ = "0.1.0"
