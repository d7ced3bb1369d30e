"""The command line. One file for each command; click and rich are imported when a command runs."""
