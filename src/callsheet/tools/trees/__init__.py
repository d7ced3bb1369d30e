"""Renaming, removing and copying entries of open directories, never through a link."""
