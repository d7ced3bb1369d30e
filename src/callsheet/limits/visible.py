"""Text that is shown to people: what would make a terminal do something is a picture of itself.

A client that prints to a terminal would follow an escape sequence in a file that is read, and others show
nothing where it is. Colours of a command are another matter: live output is a terminal's, and stays whole.
"""

from __future__ import annotations

_HARMFUL = "\x1b\x00\x08\x7f\x9b"
"""The signs of which one makes a text unfit to be shown as it is."""

_KEPT = "\t\n\r\x85"
_PICTURES = {
    **{code: 0x2400 + code for code in range(0x20)},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}
for _sign in _KEPT:
    del _PICTURES[ord(_sign)]


def visible(text: str) -> str:
    """Return a text as it can be shown anywhere: `␛[31m` for what would have been red."""
    if any(sign in text for sign in _HARMFUL):
        return text.translate(_PICTURES)
    return text
