"""What `callsheet check` does: choose the rules, find the recordings, check one after another.

What can't be read is collected as a `SourceProblem`, and never stops the rest; only a broken pipe does,
because then nobody reads what is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from msgspec import Struct

from callsheet.check.baseline import Baseline, fingerprint_of
from callsheet.check.engine import RecordingChecker, rare_garbage_collection
from callsheet.check.finding import CATEGORIES, SEVERITIES, CheckRule, Finding, Severity
from callsheet.check.output import CheckedRecording, CheckOutcome, FindingWriter, SourceProblem
from callsheet.check.rules import RULES
from callsheet.check.scorecard import Scorecard, tool_of
from callsheet.check.screening import screened
from callsheet.observe.events import CallClosed
from callsheet.observe.lines import EMPTY_RECORDING, NO_RECORDING, read_lines
from callsheet.observe.model import ObservedCall, text

CLIENTS = ("zed", "toad", "acpx")
ENDINGS = (".jsonl", ".ndjson", ".log")
STDIN = "-"

# Choosing rules


class UnknownRule(ValueError):
    """There is no such rule. The message names what is similar."""


def named(words: Iterable[str], rules: Collection[CheckRule] = RULES) -> frozenset[str]:
    """Return the ids and categories in texts like `size,order/late`.

    Raises:
        UnknownRule: One of them is neither.
    """
    found = frozenset(part.strip().rstrip("/") for word in words for part in word.split(","))
    for word in sorted(found - {""}):
        if word not in _names(rules):
            raise UnknownRule(_unknown(word, rules))
    return found - {""}


def choose(
    rules: Collection[CheckRule] = RULES,
    *,
    chosen: Collection[str] = (),
    ignored: Collection[str] = (),
    clients: Collection[str] = (),
    least: Severity = "advice",
) -> tuple[CheckRule, ...]:
    """Return the rules that apply.

    Args:
        rules: The rules to choose from.
        chosen: Ids and categories; if there are any, only their rules apply.
        ignored: Ids and categories whose rules don't apply.
        clients: Rules about a client apply if it is named here, or if they are chosen and none is.
        least: The least severity.
    """
    severities = SEVERITIES[: SEVERITIES.index(least) + 1]

    def applies(rule: CheckRule) -> bool:
        own = {rule.id, rule.category}
        if (chosen and own.isdisjoint(chosen)) or not own.isdisjoint(ignored):
            return False
        if rule.clients and not (set(rule.clients) & set(clients) or (chosen and not clients)):
            return False
        return rule.severity in severities

    return tuple(rule for rule in rules if applies(rule))


def explained(word: str, rules: Collection[CheckRule] = RULES) -> tuple[CheckRule, ...]:
    """Return the rules that a word names: an id or its last part, a category, or `all`.

    Raises:
        UnknownRule: It names none.
    """
    if word == "all":
        return tuple(rules)
    alone = tuple(rule for rule in rules if rule.id.partition("/")[2] == word)
    if alone:
        return alone
    wanted = named([word], rules)
    return tuple(rule for rule in rules if not wanted.isdisjoint({rule.id, rule.category}))


def _names(rules: Iterable[CheckRule]) -> list[str]:
    return [*CATEGORIES, *(rule.id for rule in rules)]


def _unknown(word: str, rules: Collection[CheckRule]) -> str:
    import difflib  # only for a mistake

    near = difflib.get_close_matches(word, _names(rules), n=3, cutoff=0.6)
    near += [rule.id for rule in rules if rule.id.partition("/")[2] == word and rule.id not in near]
    if near:
        return f"there is no rule {word!r}; did you mean {' or '.join(near)}?"
    return (
        f"there is no rule {word!r}; --rules lists all, and categories are {', '.join(CATEGORIES)}"
    )


# Finding recordings


class RecordingSource(Struct, frozen=True):
    """One recording that can be opened. `size` is 0 where it is not known."""

    path: str
    size: int
    open: Callable[[], AbstractContextManager[BinaryIO]]


Found = RecordingSource | SourceProblem


class _Live:
    """A stream that returns what has arrived so far, and never blocks for more, so that Ctrl-C works."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: BinaryIO = stream

    def read(self, size: int) -> bytes:
        some = getattr(self._stream, "read1", self._stream.read)
        return cast("bytes", some(size))


def find(paths: list[str], stdin: BinaryIO) -> Iterator[Found]:
    """Yield the recordings that paths name (files, directories, `-`), each once, in order."""
    seen: set[str] = set()
    for path in paths:
        for found in _at(path, stdin):
            if found.path not in seen:
                seen.add(found.path)
                yield found


def _at(path: str, stdin: BinaryIO) -> Iterator[Found]:
    if path == STDIN:
        live = cast("BinaryIO", _Live(stdin))
        yield RecordingSource(STDIN, 0, lambda: nullcontext(live))
        return
    try:
        if not Path(path).is_dir():
            yield _file(Path(path))
            return
    except (OSError, ValueError) as exc:
        yield SourceProblem(path, why(exc))
        return
    found = list(_below(Path(path)))
    if not any(isinstance(one, RecordingSource) for one in found):
        endings = ", ".join(f"*{ending}" for ending in ENDINGS)
        yield SourceProblem(path, f"there are no recordings in it ({endings})")
    yield from found


def _file(path: Path) -> RecordingSource:
    return RecordingSource(str(path), path.stat().st_size, lambda: path.open("rb"))


def _below(directory: Path) -> Iterator[Found]:
    """Yield the recordings below a directory, sorted. Links to directories are not followed."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as exc:
        yield SourceProblem(str(directory), why(exc))
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name != "node_modules":
                    yield from _below(Path(entry))
            elif entry.name.lower().endswith(ENDINGS) and entry.is_file():
                yield _file(Path(entry))
        except OSError as exc:
            yield SourceProblem(entry.path, why(exc))


def why(exc: Exception) -> str:
    """Return what went wrong, in the system's words if it was the system."""
    return exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)


# Checking them


def check_all(
    sources: Iterable[Found],
    rules: Collection[CheckRule],
    writers: Collection[FindingWriter],
    *,
    baseline: Baseline | None = None,
    fingerprints: bool = False,
) -> CheckOutcome:
    """Check recordings one after another.

    Args:
        sources: The recordings, and what can't be read.
        rules: The rules that apply, those of clients included.
        writers: Receive everything but the end; the caller closes them.
        baseline: The findings that are known, and not written.
        fingerprints: Whether writers get fingerprints; with a baseline they always do.
    """
    outcome = CheckOutcome(rules=tuple(rules), summary=Scorecard(rules))
    if fingerprints and baseline is None:
        baseline = Baseline()
    for source in sources:
        if isinstance(source, SourceProblem):
            outcome.problems.append(source)
            continue
        try:
            with source.open() as stream, rare_garbage_collection():
                run = _RecordingRun(source.path, outcome, writers, baseline)
                run.check(stream, source.size)
        except OSError as exc:
            if isinstance(exc, BrokenPipeError):
                raise  # nobody reads what we write
            outcome.problems.append(SourceProblem(source.path, why(exc)))
    outcome.gone = baseline.gone({rule.id for rule in rules}) if baseline else ()
    return outcome


class _RecordingRun:
    """The check of one recording."""

    def __init__(
        self,
        path: str,
        outcome: CheckOutcome,
        writers: Collection[FindingWriter],
        baseline: Baseline | None,
    ) -> None:
        self._recording: CheckedRecording = CheckedRecording(path=path)
        self._outcome: CheckOutcome = outcome
        self._writers: Collection[FindingWriter] = writers
        self._baseline: Baseline | None = baseline
        # The rules were chosen by client before: here, all of them apply.
        self._checker: RecordingChecker = RecordingChecker(
            outcome.rules, clients=CLIENTS, on_finding=self._found, on_over=self._over
        )

    def check(self, stream: BinaryIO, size: int) -> None:
        """Read it to its end. If reading fails, what was found until then is written as well."""
        path = self._recording.path
        self._outcome.summary.begin()
        if self._baseline is not None:
            self._baseline.begin(path)
        for writer in self._writers:
            writer.begin(path)
        try:
            with screened(stream, size) as verdicts:
                for line in read_lines(stream):
                    self._checker.feed(line, next(verdicts))
                    self._recording.is_cut = line.fault == "cut"
        except BrokenPipeError:
            raise
        except OSError:
            self._end(is_whole=False)
            raise
        self._end()

    def _end(self, *, is_whole: bool = True) -> None:
        recording, tracker = self._recording, self._checker.tracker
        self._checker.finish()
        recording.protocol = tracker.connection.version
        recording.agent = tracker.connection.agent or None
        recording.calls, recording.lines = tracker.calls, tracker.line
        recording.has_messages = tracker.messages > 0 or not is_whole
        if recording.has_messages:
            self._outcome.recordings += 1
            self._outcome.calls += tracker.calls
            self._outcome.clean += not any(recording.found.values())
        else:
            self._refuse()
        for writer in self._writers:
            writer.end(recording)

    def _refuse(self) -> None:
        """Report that the file is no recording. What is wrong with its lines does not matter then."""
        problem = SourceProblem(
            self._recording.path, NO_RECORDING if self._recording.lines else EMPTY_RECORDING
        )
        self._outcome.problems.append(problem)
        for severity, number in self._recording.found.items():
            self._outcome.found[severity] -= number

    def _over(self, event: CallClosed) -> None:
        self._outcome.summary.over(event)
        for writer in self._writers:
            writer.over(event.call)

    def _found(self, finding: Finding) -> None:
        outcome, recording = self._outcome, self._recording
        call, first = self._checker.subject
        outcome.summary.found(finding, first)
        title = (text(call.fields.get("title")) or "") if call else ""
        fingerprint = ""
        if self._baseline is not None:
            fingerprint, is_known = self._compared(self._baseline, finding, call, title)
            if is_known:
                recording.known += 1
                outcome.known += 1
                return
        recording.found[finding.severity] += 1
        outcome.found[finding.severity] += 1
        for writer in self._writers:
            writer.found(finding, first, fingerprint)

    def _compared(
        self, baseline: Baseline, finding: Finding, call: ObservedCall | None, title: str
    ) -> tuple[str, bool]:
        """Return a finding's fingerprint, and whether it is known."""
        path, tool = self._recording.path, tool_of(call) if call else ""
        agent = self._checker.tracker.connection.agent
        cwd = (call.session.cwd or "") if call else ""
        fingerprint = fingerprint_of(finding, path, agent, tool, title, cwd)
        return fingerprint, baseline.knows(finding, fingerprint, path, tool)
