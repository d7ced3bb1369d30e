"""Golden outputs: what the code made when the data was last written, to compare with what it makes now.

`python -m tests.golden` (`make goldens`) writes the data anew; `tests/integration/test_golden.py` compares.

- `parts.py`: everything of callsheet and of the other tests that is used here, imported in one place
- `recordings.py`: `callsheet repair` and `callsheet check` of every recording
- `scenes.py`, `lines.py`: the lines that peers get, in many scenes
- `corpus.py`: what redaction makes of the corpora of secrets
- `files.py`: how the data is kept, and how a difference is shown
- `surroundings.py`: a place and an environment that are the same on every machine
"""
