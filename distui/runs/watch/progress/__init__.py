"""How far ranks are, and which are quiet: read out of what they print."""
