"""The store in a file, by SQLite."""
