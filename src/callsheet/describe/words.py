"""Guessing what a tool does from the words of its name. Whole words only, the destructive first.

Strong verbs count wherever they stand: `getUserAndDelete` deletes, `fetch_push` edits. Weak ones are nouns
as often (`get_post`, `list_test_run`), so they count only where a verb stands: first, or after "and", "or",
"then". Readers count last, the leftmost first. What changes something inside is `edit`, what takes something
away is `delete`, and what acts on the world (sends, pays, stops, runs SQL) is `execute`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from callsheet.describe import files, finding, running, telling
from callsheet.describe.drafts import Shape
from callsheet.describe.naming import words_of
from callsheet.report.fields import ToolKind


class Guess(NamedTuple):
    """A kind and a shape, and the word that they come from."""

    kind: ToolKind
    shape: Shape
    word: str


_K = ToolKind
_Row = tuple[ToolKind, Shape, str]

_STRONG: tuple[_Row, ...] = (
    (
        _K.DELETE,
        files.delete,
        "delete remove destroy drop purge erase unlink rm rmdir wipe uninstall truncate prune expire flush "
        "revoke discard del",
    ),
    (_K.MOVE, files.move, "move rename mv relocate"),
    (_K.EDIT, files.write, "write create overwrite save upload put"),
    (
        _K.EDIT,
        files.edit,
        "edit update modify replace insert append rewrite upsert undelete undo archive unarchive apply "
        "publish unpublish restore enable disable rotate commit push add subscribe unsubscribe merge "
        "approve reject invite reset revert rebase reopen reply submit assign unassign sync convert "
        "unlock unblock grant deny accept",
    ),
    (_K.EDIT, files.make_directory, "mkdir"),
    (
        _K.EXECUTE,
        running.command_line,
        "execute exec spawn eval evaluate send scale click kill transfer cancel stop rebuild reindex "
        "terminate shutdown pay "
        "purchase buy refund withdraw restart reboot deploy redeploy undeploy install launch invoke "
        "compile abort suspend drain cordon evict failover rollback sql powershell pwsh",
    ),
)
_WEAK: tuple[_Row, ...] = (
    (_K.DELETE, files.delete, "clear clean empty trash"),
    (_K.EDIT, files.copy, "copy cp"),
    (
        _K.EDIT,
        files.edit,
        "set post patch change fix touch format make register close comment checkout stash",
    ),
    (
        _K.EXECUTE,
        running.command_line,
        "run shell bash terminal command start test build trigger call cmd query",
    ),
)
_READERS: tuple[_Row, ...] = (
    (_K.FETCH, finding.fetch, "fetch download crawl scrape browse navigate curl http"),
    (_K.SEARCH, finding.find, "glob"),
    (_K.SEARCH, finding.search, "search find grep lookup locate ripgrep rg"),
    (_K.THINK, telling.think, "think thinking sequentialthinking reflect reason brainstorm"),
    (_K.READ, files.listing, "list ls readdir tree"),
    (
        _K.READ,
        files.read,
        "read get view show cat open load describe inspect retrieve stat exists count check "
        "status info diff log logs history snapshot screenshot preview peek head tail "
        "validate verify",
    ),
)
_LAST: tuple[_Row, ...] = ((_K.FETCH, finding.fetch, "web url internet webpage"),)

_CONJUNCTIONS = frozenset(("and", "or", "then", "http"))
_NOUNS: frozenset[str] = frozenset(
    (
        "get_commit",
        "show_commit",
        "read_commit",
        "get_commit_diff",
        "get_commit_status",
        "list_commit_statuses",
        "list_commit_comments",
        "get_merge_request",
        "get_merge_request_diffs",
        "get_merge_request_notes",
        "list_merge_requests",
        "list_merge_request_diffs",
        "list_merge_request_discussions",
    )
)
"""Whole names of real tools in which a strong verb is a noun."""

_MODE_VERBS = frozenset(("switch", "set", "enter", "exit", "leave", "change"))


def _table(rows: tuple[_Row, ...]) -> dict[str, tuple[int, Guess]]:
    """Index rows by word; the number is the row's rank."""
    return {
        word: (rank, Guess(kind, shape, word))
        for rank, (kind, shape, words) in enumerate(rows)
        for word in words.split()
    }


_STRONG_WORDS, _WEAK_WORDS = _table(_STRONG), _table(_WEAK)
_READER_WORDS, _LAST_WORDS = _table(_READERS), _table(_LAST)
_ORDER = (_K.DELETE, _K.MOVE, _K.EDIT, _K.EXECUTE)


def guess(name: str, prefixes: Sequence[str] = ("git",)) -> Guess | None:
    """Guess from a name, or give None. `prefixes` are first words that say nothing."""
    words = [word.lower() for word in words_of(name)]
    while len(words) > 1 and words[0] in prefixes:
        words.pop(0)
    if "mode" in words and words[0] in _MODE_VERBS:
        return Guess(_K.SWITCH_MODE, telling.mode, "mode")
    return _changing(words) or _leftmost(words, _READER_WORDS) or _fallback(words)


def _changing(words: list[str]) -> Guess | None:
    """Find the most destructive verb."""
    if "_".join(words) in _NOUNS:
        return None
    found = [_STRONG_WORDS[word][1] for word in words if word in _STRONG_WORDS]
    for place, word in enumerate(words):
        if word in _WEAK_WORDS and (place == 0 or words[place - 1] in _CONJUNCTIONS):
            found.append(_WEAK_WORDS[word][1])
    return min(found, key=_rank) if found else None


def _rank(one: Guess) -> int:
    return _ORDER.index(one.kind)


def _leftmost(words: list[str], table: dict[str, tuple[int, Guess]]) -> Guess | None:
    return next((table[word][1] for word in words if word in table), None)


def _fallback(words: list[str]) -> Guess | None:
    """A name without a verb in its place: `workflow_run`, `web`."""
    if words and words[-1] in _WEAK_WORDS:
        return _WEAK_WORDS[words[-1]][1]
    return _leftmost(words, _LAST_WORDS)
