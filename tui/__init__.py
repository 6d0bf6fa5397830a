"""The terminal UI: the only importer of textual."""
