"""Finding files by their names, and lines in them by their contents."""
