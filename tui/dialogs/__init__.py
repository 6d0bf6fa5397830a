"""Questions, help, menus and texts on top of a screen."""
