"""Bytes from one descriptor to another, and what is left of both when that is over."""

from __future__ import annotations

import os
from pathlib import Path

from callsheet.tap.stdio import Relay, Send


class Onlooker:
    """A hook that passes everything on."""

    send: Send

    def begin(self, send: Send) -> None:
        self.send = send

    def take(self, data: bytes, send: Send) -> None:
        send(data)

    def end(self, send: Send) -> None:
        pass


def test_what_is_said_after_the_end_reaches_no_file_that_was_opened_meanwhile(
    tmp_path: Path,
) -> None:
    said, says = os.pipe()
    hears, heard = os.pipe()
    hook = Onlooker()
    relay = Relay(said, heard, hook)
    relay.start()
    os.close(hears)
    os.write(says, b"nobody hears this\n")
    relay.join(10)
    assert not relay.is_alive()
    files = [(tmp_path / str(number)).open("wb") for number in range(4)]
    hook.send(b"nor this\n")
    for file in files:
        file.close()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b""] * 4
    os.close(says)
    os.close(heard)


def test_the_other_side_is_told_of_the_end() -> None:
    said, says = os.pipe()
    hears, heard = os.pipe()
    relay = Relay(said, heard, Onlooker())
    relay.start()
    os.write(says, b"so long\n")
    os.close(says)
    assert os.read(hears, 100) == b"so long\n"
    assert os.read(hears, 100) == b""
    relay.join(10)
    os.close(hears)
    os.close(heard)
