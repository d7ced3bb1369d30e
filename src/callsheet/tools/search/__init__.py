"""Finding files, and lines in them.

`fallback` and all that it imports run in a child process that has the standard library only.
"""
