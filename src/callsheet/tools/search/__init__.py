"""Finding files and lines in them. Only the standard library: a child process runs parts of it alone."""
