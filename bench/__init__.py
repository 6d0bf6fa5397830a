"""Measures of distui beside its peers, or beside a floor, in the same run on the same machine: `python -m bench`."""
