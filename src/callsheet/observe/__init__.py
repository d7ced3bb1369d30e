"""What happens in anybody's ACP traffic, as seen from outside: sessions, turns, calls, and evidence.

`tracker.py` makes events of lines, and knows nothing of who uses them: the checker judges them, the tap
repairs by them. `lines.py` reads and writes recordings, `model.py` is what is known, `events.py` what
happens.
"""
