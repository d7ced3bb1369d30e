"""Stands between a client and any agent, which need not know of us: passes on, records, puts right.

`between.py` starts the agent and passes bytes on, both ways, through a `relay.py` for each. A relay
shows what it passes on to a *hook*, which may keep it (`record.py`), or pass on something else. `child.py` is
the agent's process: its signals, its end, and that nothing of it is left behind, also if we are killed
(`watchdog.py`). `recording.py` writes what is kept to a file, in a thread of its own, so that no message
waits for a disk.
"""
