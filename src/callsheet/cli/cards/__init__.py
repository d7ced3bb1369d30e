"""Tool calls as cards: drawn live on a terminal, as plain lines into a pipe.

A board is a client like any other. It is sent ACP `session/update` lines, by a session of this
process or by an agent at the other end of a pipe, and has no other source. So it shows exactly what
an editor could show, with the same secrets redacted.

`board` folds lines into reports, and writes plain lines. `body` turns what a report holds, and how it ended,
into lines; `card` makes rich's panels of these, prints and redraws them.
"""
