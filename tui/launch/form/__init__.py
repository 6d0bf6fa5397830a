"""The launch form and the job file beside it: fields, text, and the question before a start."""
