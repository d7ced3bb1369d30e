"""What is wrong with a recording of tool calls, told from the recording alone.

Lines are read one by one (`lines.py`), and `watch.py` knows from them what a patient reader would know: who
spoke, which version was agreed on, which sessions, turns and calls there are. It tells of *moments*
(`moments.py`): a message, an update of a call, a question, the end of a turn, the end of a call. Each rule
(`rules/`) is a small pure function of one kind of moment. `engine.py` puts these together.

Memory does not grow with the recording: what is over is judged, and let go.
"""
