"""Callsheet beside its peers: `make bench`, or `python -m bench` from the repository's root."""
