"""A plan for people: as text, and two of them side by side."""
