"""What is wrong with a recording of tool calls, found from the recording alone.

`callsheet.observe` knows from the lines what a reader would know: who spoke, which version was agreed on,
which sessions, turns and calls there are; it emits events. Each rule (`rules/`) is a small pure function of
one kind of event. `engine.py` puts these together, `runner.py` checks files, `output.py` writes findings.

Memory does not grow with the recording: what has ended is judged, and let go.
"""
