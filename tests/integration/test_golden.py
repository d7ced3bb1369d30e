"""What the code makes is what it made when the golden outputs were written, byte for byte.

If a change is meant, make them anew with `make goldens`, and read what `git diff` says of them.
"""

from __future__ import annotations

import pytest

from tests.golden import corpus, files, lines, recordings

RECORDINGS = recordings.found()


def hold(name: str, made: files.Items) -> None:
    different = files.differences(name, files.read(name), made)
    if different:
        pytest.fail(different, pytrace=False)


@pytest.mark.parametrize("name", sorted({*files.names("recordings"), *RECORDINGS}))
def test_recordings_are_repaired_and_checked_as_before(name: str) -> None:
    if name not in RECORDINGS and recordings.shared() is None:
        pytest.skip("the shared recordings are not beside this checkout")
    hold(name, recordings.make(name, RECORDINGS[name]) if name in RECORDINGS else {})


@pytest.mark.parametrize("name", sorted({*files.names("lines"), *lines.FILES}))
def test_peers_get_the_same_lines_as_before(name: str) -> None:
    hold(name, lines.make(name) if name in lines.FILES else {})


@pytest.mark.parametrize("name", corpus.FILES)
def test_secrets_are_redacted_as_before(name: str) -> None:
    hold(name, corpus.make(name))
