"""Cells of text in colours: themes, signs, figures as words.

In: values. Out: painted rows.
"""
