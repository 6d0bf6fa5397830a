"""All ranks in one log: lines in time, folded where several ranks say the same."""
