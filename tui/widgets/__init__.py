"""Lists with a cursor, panels and plots that several screens use."""
