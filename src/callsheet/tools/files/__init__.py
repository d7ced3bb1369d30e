"""What the tools for files share: text as it is on disk, lines of huge files, atomic writes, near misses."""
