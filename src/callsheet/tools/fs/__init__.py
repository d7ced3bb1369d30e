"""The file system as tools see it: confined to the workspace, and without following links put in the way."""
