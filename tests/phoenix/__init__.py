"""Spans in a backend that is not ours: see `tests.phoenix.__main__`."""
