"""Logs as files: buffers over them, search, filters, the merged log, and what is read out of them. No widgets."""
