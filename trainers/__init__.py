"""Programs that run inside containers. They import nothing of distui."""
