"""A search gives the same answer with ripgrep and without: totals, order, lines and what is shown of them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.tools.search import ripgrep
from callsheet.tools.search.engine import Search, search
from callsheet.tools.search.show import show_hits
from callsheet.tools.search.texts import open_text
from callsheet.tools.search.walk import scope_of
from tests.support.sizes import fewer
from tests.support.trees import Trees

RG = ripgrep.find()
PATTERNS = ["foo", "fo+", r"\bfoo\b", "^", "$", "é", "[^x]x", "-|9", "x$", "", r"\S+\s", "(?i)FOO"]


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
@fewer(5)
@given(st.integers(0, 1 << 32))
def test_the_answer_is_the_same_with_ripgrep_and_without(seed: int) -> None:
    trees = Trees(seed)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        trees.fill(top, [".gitignore", ".ignore"])
        if trees.chance.random() < 0.5:
            trees.repository(top)
        asked = some_search(trees, top)
        if asked is None:
            return
        most, context = trees.chance.choice([3, 100]), trees.chance.choice([0, 2])
        ours = asyncio.run(search(asked, most, None))
        theirs = asyncio.run(search(asked, most, RG))
        assert ours == theirs
        assert ours.total >= sum(len(hits.lines) for hits in ours.hits)
        text, shown = show_hits(ours.hits, context, str)
        assert len(shown) == min(ours.total, most)
        assert text.count("\n\n") == max(0, len(ours.hits) - 1)


def some_search(trees: Trees, top: Path) -> Search | None:
    chance = trees.chance
    directories = [Path(path) for path, _, _ in os.walk(top) if "/.git" not in path]
    base = top if chance.random() < 0.5 else chance.choice(directories)
    scope = scope_of(str(base), [str(top)])
    files = [path.name for path in base.iterdir() if path.is_file() and not path.is_symlink()]
    file = chance.choice(files) if files and chance.random() < 0.1 else None
    if file is not None:
        text = open_text(str(base / file))
        binary = text.is_binary()
        text.close()
        if binary:
            return None  # that is seen before it is searched
    glob = chance.choice([None, chance.choice(["", "!"]) + trees.glob()])
    return Search(chance.choice(PATTERNS), chance.random() < 0.3, scope, file, glob)
