"""Observe ACP traffic of any client and agent from outside: sessions, turns, calls, and evidence.

`tracker.py` turns lines into events, and does not depend on their users: the checker applies its rules to
them, and the tap repairs calls by them. `lines.py` reads and writes recordings, `model.py` has the observed
state, and `events.py` the events.
"""
