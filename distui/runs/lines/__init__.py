"""What everything else hands on: events, and lines of ranks from bytes to text.

In: bytes of engines and the helper. Out: records, columns, safe text, events.
"""
