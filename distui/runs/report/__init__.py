"""Runs and failures as rows and texts.

In: state and stored runs. Out: what lists, screens and reports show.
"""
