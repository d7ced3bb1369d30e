"""Callsheet beside its peers: `make bench`, or `python -m bench` from the root of the repository."""
