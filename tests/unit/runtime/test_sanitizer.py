"""What a session lets out is safe: no secrets on any way, nothing too large, what is cut is kept."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import CallsheetError, Peer, Session, ToolCallContent
from callsheet.describe.i18n import LOCALES
from callsheet.limits.limits import ROOMY, Limits
from callsheet.limits.text import visible
from callsheet.redaction.redactor import Redactor
from callsheet.runtime.sanitizer import GuardSettings
from callsheet.runtime.spill_store import SpillStore
from callsheet.testing import FakeClock, Recorder, assert_every_call_ended

SECRET = "ghp_" + "Zx9" * 12
PEERS = [Peer(), Peer(version=2), Peer(terminals="meta", titles="markdown")]


class Reports:
    """A consumer of reports, as a history is."""

    peer = None

    def __init__(self) -> None:
        self.text = ""

    def send(self, items: Any) -> None:
        self.text += "".join(map(repr, items))
        items.clear()

    def close(self) -> None:
        pass


async def test_a_secret_gets_out_on_no_way() -> None:
    recorders, reports = [Recorder(peer) for peer in PEERS], Reports()
    asked: list[str] = []

    async def ask(question: Any) -> str:
        asked.append(json.dumps(question.params(1)) + json.dumps(question.params(2)))
        return "allow_once"

    async with Session(sinks=[*recorders, reports], on_permission=ask) as session:
        async with session.call(
            "bash",
            {
                "command": f"curl -H 'Authorization: Bearer {SECRET}' x",
                "nested": [{"password": SECRET}],
            },
            custom={"note": SECRET},
            meta={"vendor": {"api_key": SECRET}},
        ) as call:
            await call.permission()
            call.start()
            call.title(f"Using {SECRET}")
            call.progress(1, 2, f"token {SECRET}")
            call.custom(token=SECRET)
            call.show(f"see {SECRET}", ToolCallContent.link(f"https://x/?t={SECRET}", SECRET))
            call.diff("/a.env", f"KEY={SECRET}\n", f"KEY={SECRET}2\n")
            call.write(f"export T={SECRET[:10]}")
            await session.flush()
            call.write(f"{SECRET[10:]}\n")
            call.update(raw_input={"token": SECRET})
            call.succeed(f"done with {SECRET}", raw={"stdout": SECRET})
        with pytest.raises(ValueError, match="leak"):
            async with session.call("x", {}, title=f"Title {SECRET}"):
                raise ValueError(f"leak {SECRET}")
    everything = "".join(line.decode() for recorder in recorders for line in recorder.lines)
    for text in (everything, reports.text, *asked):
        assert SECRET not in text
        assert SECRET[4:20] not in text
        assert "[redacted:" in text
    assert session.health.redacted >= 12
    for recorder in recorders:
        assert_every_call_ended(recorder)
        assert recorder.fold()[call.id].notes["redactions"] >= 10


@pytest.mark.parametrize("peer", PEERS, ids=["text", "v2", "meta"])
@pytest.mark.parametrize("pieces", [2, 3, 7])
async def test_a_secret_split_over_writes_is_found(peer: Peer, pieces: int) -> None:
    data = f"before {SECRET} after\n".encode()
    recorder = Recorder(peer)
    async with Session(sinks=[recorder]) as session:
        for shift in range(len(data)):
            async with session.call("bash", {"command": "env"}) as call:
                cuts = sorted(
                    {0, len(data), *((shift + n * 5) % len(data) for n in range(pieces - 1))}
                )
                for begin, end in itertools.pairwise(cuts):
                    call.write(data[begin:end])
                    await session.flush()
                call.succeed()
    everything = b"".join(recorder.lines)
    assert SECRET.encode() not in everything
    assert everything.count(b"[redacted:") >= len(data) or peer.version == 2


async def test_a_prompt_is_not_held_back_for_long() -> None:
    """What may be the beginning of a secret is shown once the output pauses."""
    clock, recorder = FakeClock(), Recorder(Peer(terminals="meta"))
    async with Session(sinks=[recorder], clock=clock) as session:
        async with session.call("bash", {"command": "read"}) as call:
            call.start()
            call.write(b"Token [ghp_abc]? ghp_")
            await clock.advance(0.25)
            shown = "".join(
                u["_meta"]["terminal_output"]["data"]
                for u in recorder.updates
                if "terminal_output" in u.get("_meta", {})
            )
            assert shown == "Token [ghp_abc]? ghp_"
            call.succeed()


async def test_secrets_of_the_environment_and_registered_ones_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_SERVICE_PASSWORD", "correct-horse-battery")
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call("x", {"note": "it is correct-horse-battery"}) as call:
            call.succeed()
    assert b"correct-horse" not in b"".join(recorder.lines)
    own = Recorder()
    redactor = Redactor(known={"mcp": "s3cr3t-value-42"})
    async with Session(sinks=[own], guard=GuardSettings(redact=redactor)) as session:
        async with session.call("x", {"note": "s3cr3t-value-42"}) as call:
            call.succeed()
    assert b"s3cr3t-value-42" not in b"".join(own.lines)


async def test_redaction_and_limits_can_be_turned_off() -> None:
    recorder = Recorder()
    off = GuardSettings(redact=False, limits=None, spill=False)
    async with Session(sinks=[recorder], guard=off) as session:
        async with session.call("x", {"token": SECRET}) as call:
            call.succeed("y" * 300_000)
    (report,) = recorder.fold()
    assert report.raw_input == {"token": SECRET}
    assert len(report.content[0].text) == 300_000  # type: ignore[attr-defined]
    assert session.health.is_good


async def test_what_is_cut_says_how_much_and_is_kept_whole(tmp_path: Path) -> None:
    recorder, store = Recorder(), SpillStore(tmp_path / "spill")
    text = "".join(f"line {n} {'not a key' if n % 50 else SECRET}, or is it\n" for n in range(9000))
    async with Session(sinks=[recorder], guard=GuardSettings(spill=store)) as session:
        async with session.call("read", {"path": "big.log"}) as call:
            call.succeed(text, raw={"rows": list(range(20_000))})
    (report,) = recorder.fold()
    note = report.notes["truncated"]
    assert note["field"] == "content"
    spilled = Path(note["spill"]).read_text()
    assert spilled.count("\n") == 9000
    assert SECRET not in spilled
    assert len(spilled.encode()) == note["totalBytes"]
    assert max(map(len, recorder.lines)) < 64 * 1024
    assert session.health.cut == 2
    links = [item for item in report.content if type(item).__name__ == "ResourceLink"]
    assert links[0].uri == Path(note["spill"]).as_uri()  # type: ignore[attr-defined]


async def test_a_disk_that_can_not_be_written_fails_no_call() -> None:
    recorder = Recorder()
    async with Session(
        sinks=[recorder], guard=GuardSettings(spill=SpillStore("/proc/nowhere"))
    ) as session:
        async with session.call("read", {"path": "big.log"}) as call:
            call.succeed("y\n" * 100_000)
    (report,) = recorder.fold()
    assert report.status.value == "completed"
    assert "spill" not in report.notes["truncated"]


async def test_raw_output_does_not_say_again_what_content_says() -> None:
    recorder, text = Recorder(), "the same text, long enough to be worth it\n" * 20
    async with Session(sinks=[recorder]) as session:
        async with session.call("read", {}) as call:
            call.succeed(text, raw={"content": text, "lines": 20})
    (report,) = recorder.fold()
    assert report.raw_output == {"content": "[see content]", "lines": 20}
    assert b"".join(recorder.lines).count(b"the same text") == 20


async def test_many_items_together_stay_within_the_limits() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call("x", {}) as call:
            for number in range(300):
                call.show(f"{number} " + "y" * 500)
            call.succeed()
    assert max(map(len, recorder.lines)) < 64 * 1024
    assert recorder.fold()[call.id].notes["truncated"]["field"] == "content"


async def test_roomy_limits_for_clients_that_take_long_lines() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder], guard=GuardSettings(limits=ROOMY)) as session:
        async with session.call("x", {}) as call:
            call.succeed("y" * 500_000)
    assert max(map(len, recorder.lines)) > 500_000
    assert session.health.is_good


@pytest.mark.parametrize("locale", [*LOCALES, "xx", "ar", ""])
async def test_a_session_speaks_its_users_language(locale: str) -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder], locale=locale, cwd="/home/me") as session:
        async with session.call("read", {"path": "a.py"}) as call:
            await session.flush()
        async with session.batch(summary=True) as batch:
            async with batch.call("x", {}) as call:
                call.write("z\n" * 20_000)
                call.fail()
    english = recorder.updates[0]["title"] == "Reading a.py"
    assert english == (locale in ("en", "xx", "ar", ""))
    said = b"".join(recorder.lines).decode()
    assert ("left out" in said) == english
    assert ("Ended without a result" in said) == english
    assert_every_call_ended(recorder)


async def test_titles_are_escaped_for_a_client_that_renders_markdown() -> None:
    zed, plain = Recorder(Peer(titles="markdown")), Recorder()
    async with Session(sinks=[zed, plain], cwd="/home/me") as session:
        async with session.call("Grep", {"pattern": "a*b*", "path": "__init__.py"}) as call:
            call.succeed()
        async with session.call("Bash", {"command": "echo *"}) as call:
            call.succeed()
    assert [r.title for r in zed.fold()] == [
        r"Searching for 'a\*b\*' in \_\_init\_\_.py",
        "Running `echo *`",
    ]
    assert [r.title for r in plain.fold()] == [
        "Searching for 'a*b*' in __init__.py",
        "Running `echo *`",
    ]


async def test_big_values_are_guarded_without_holding_up_other_calls() -> None:
    """What takes time is done without the lock."""
    async with Session() as session:
        done = asyncio.Event()

        def big() -> None:
            with session.call("big", {}) as call:
                call.succeed("y " * 2_000_000)

        async def small() -> None:
            while not done.is_set():
                with session.call("small", {}) as call:
                    call.succeed()
                await asyncio.sleep(0)

        other = asyncio.create_task(small())
        await asyncio.to_thread(big)
        done.set()
        await other
        assert all(report.is_final for report in session.reports)


async def test_a_mark_hides_no_danger_from_the_kind() -> None:
    """The kind is told by what is really run, not by what is left when a secret is taken out."""
    async with Session() as session:
        with session.call("bash", {"command": f"cat f token={SECRET};rm -rf /"}) as call:
            assert call.report.kind.value == "execute"
            call.succeed()


async def test_what_is_approved_is_shown_whole() -> None:
    script = "echo hello\n" * 2000 + "rm -rf ~/everything\n" + "echo bye\n" * 2000
    seen: list[str] = []

    def ask(question: Any) -> str:
        seen.append(question.params(1)["toolCall"]["rawInput"]["command"])
        return "allow_once"

    recorder = Recorder()
    async with Session(sinks=[recorder], on_permission=ask) as session:
        async with session.call("bash", {"command": script}) as call:
            await call.permission()
            call.succeed()
        async with session.call("bash", {"command": "ls"}) as call:
            call.update(raw_input={"command": script + "2"})
            await call.permission()
            call.succeed()
    assert seen == [script, script + "2"]
    assert max(map(len, recorder.lines)) < 64 * 1024


WAYS_OUT: dict[str, Any] = {
    "name": lambda s: s.call(SECRET, {}),
    "alias": lambda s: s.call("x", {}, alias=SECRET),
    "batch": lambda s: s.call("x", {}, batch=SECRET),
    "locations": lambda s: s.call("x", {}, locations=[f"/tmp/{SECRET}"]),
    "custom": lambda s: s.call("x", {}, custom={"q": SECRET, "big": "x" * 9000}),
    "meta": lambda s: s.call("x", {}, meta={"q": SECRET, "big": "x" * 9000}),
    "kind": lambda s: s.call("x", {}, kind=SECRET),
    "parent": lambda s: s.call("x", {}, parent=SECRET),
}


@pytest.mark.parametrize("way", WAYS_OUT)
async def test_no_argument_lets_a_secret_out(way: str, tmp_path: Path) -> None:
    recorders = [Recorder(peer) for peer in PEERS]
    guard = GuardSettings(spill=SpillStore(tmp_path))
    async with Session(sinks=recorders, guard=guard) as session:
        with WAYS_OUT[way](session) as call:
            call.locate(f"/tmp/{SECRET}/a")
            call.update(locations=[f"/tmp/{SECRET}/b"])
            call.diff(f"/tmp/{SECRET}/c", "a", "b")
            call.show(
                ToolCallContent.resource("file:///x", f"K={SECRET}\n".encode() * 3000, "text/plain")
            )
            call.write("x")
            call.exit(signal=SECRET)
            call.fail(f"no {SECRET}", reason=SECRET)
    spilled = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    for data in (
        *[b"".join(recorder.lines) for recorder in recorders],
        spilled,
        repr(session.health).encode(),
    ):
        assert SECRET.encode() not in data
    assert_every_call_ended(recorders[0])


async def test_an_exceptions_text_is_cut_after_its_secrets_are_taken_out() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        with pytest.raises(RuntimeError):
            async with session.call("x", {}):
                raise RuntimeError("x" * 262 + " " + SECRET)
    assert SECRET[:12].encode() not in b"".join(recorder.lines)


async def test_no_way_makes_a_line_that_old_clients_die_of() -> None:
    recorders = [Recorder(peer) for peer in PEERS]
    big = "x" * 100_000
    async with Session(sinks=recorders) as session:
        first = [session.call("y", {}).__enter__() for _ in range(300)]
        with session.call(
            "bash", {"command": big}, custom={"a": big}, meta={"b": big}, depends_on=first
        ) as call:
            call.custom(a=big)
            call.update(meta={"c": big}, title=big, raw_input={"d": big})
            call.progress(1, 2, big)
            for number in range(20):
                call.locate(f"/{number}/" + "p" * 6000)
            call.show("s" * 31_000)
            call.write("😀" * 50_000)
            await session.flush()
            call.write(b'\xff"\n' * 10_000)
            late = Recorder()
            session.attach(late)
            call.succeed("r" * 31_000, raw={"e": big})
    for recorder in (*recorders, late):
        assert max(map(len, recorder.lines)) <= 64 * 1024, recorder.peer
        assert_every_call_ended(recorder)


async def test_many_shows_are_cut_from_the_whole_and_kept_once(tmp_path: Path) -> None:
    recorder, store = Recorder(), SpillStore(tmp_path / "spill")
    async with Session(sinks=[recorder], guard=GuardSettings(spill=store)) as session:
        async with session.call("x", {}) as call:
            for number in range(1500):
                call.show(f"line {number:5} " + "y" * 50)
            call.succeed("the end")
    (report,) = recorder.fold()
    note = report.notes["truncated"]
    whole = Path(note["spill"]).read_text()
    shown = " ".join(str(item) for item in report.content)
    assert all(f"line {number:5}" in whole or f"line {number:5}" in shown for number in range(1500))
    assert len(list((tmp_path / "spill").glob("spill-*"))) <= 3
    assert report.content[-1].text == "the end" or "the end" in shown  # type: ignore[attr-defined]


async def test_secrets_are_counted_once() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call("bash", {"command": f"echo {SECRET}"}) as call:
            call.write(f"{SECRET}\n")
            call.succeed(f"it was {SECRET}")
    (report,) = recorder.fold()
    assert report.notes["redactions"] == 3
    assert session.health.redacted == 3


async def test_what_is_neither_text_nor_content_is_shown_as_text() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        for value in ({"a": 1}, 5, b"bytes", ValueError("no"), None):
            async with session.call("x", {}) as call:
                call.fail(value)  # type: ignore[arg-type]
    texts = [report.content[0].text if report.content else None for report in recorder.fold()]  # type: ignore[attr-defined]
    assert texts == ['{\n  "a": 1\n}', "5", "bytes", "ValueError: no", None]


async def test_the_exit_of_a_command_decides_when_nothing_else_does() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        for code in (0, 2):
            async with session.call("bash", {"command": "x"}) as call:
                call.write(b"output\n")
                call.exit(code)
    good, bad = recorder.fold()
    assert (good.status.value, bad.status.value, bad.notes["reason"]) == (
        "completed",
        "failed",
        "exit_code",
    )


def test_settings_that_make_no_sense_are_refused_at_once() -> None:
    for wrong in (5, "off", True):
        with pytest.raises(CallsheetError, match="expected GuardSettings"):
            Session(guard=wrong)  # type: ignore[arg-type]
    with pytest.raises(CallsheetError, match="guard limits: expected Limits or NoneType, got int"):
        GuardSettings(limits=5)  # type: ignore[arg-type]


any_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.just(SECRET)
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.sampled_from(["a", "password", "note", "stdout"]), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(value=any_value, size=st.integers(256, 4000))
def test_any_value_is_guarded_within_any_limit_and_guarding_twice_changes_nothing(
    value: Any, size: int
) -> None:
    """JSON, redacted and bounded, as a session does it; and the same again from what came out."""
    limits = Limits(raw_input=size)
    guard = Session(guard=GuardSettings(limits=limits, spill=False)).guard

    def once(given: Any) -> Any:
        return guard.bounded({"raw_input": guard.value(given)[0]}, None)[0]["raw_input"]

    safe = once(value)
    data = msgspec.json.encode(safe)
    assert len(data) <= max(size, limits.raw_input)
    assert msgspec.json.decode(data.decode()) == safe
    assert SECRET.encode() not in data
    assert once(safe) == safe


@pytest.mark.parametrize("redact", [True, False])
async def test_text_that_people_are_shown_makes_no_terminal_do_anything(redact: bool) -> None:
    harmful = "1\t\x1b[31mred\x1b]0;title\x07 \x9b2J\0\x7f é\r\nTOKEN\x1b[0m=" + SECRET
    recorder = Recorder()
    settings = GuardSettings(redact=redact)
    async with Session(on_update=recorder, guard=settings) as session:
        for shown in (harmful, [ToolCallContent.text(harmful)]):
            async with session.call("read", {"path": "a.txt"}) as call:
                call.succeed(shown, raw={"output": harmful})
        async with session.call("bash", {"command": "ls --color"}) as call:
            call.write(b"\x1b[31mred\x1b[0m\n")
            call.succeed()
    for report in recorder.fold():
        (item,) = report.content
        said = item.text
        assert not set(said) & set("\x1b\x07\x9b\0\x7f"), said
        if report.name == "read":
            assert said.startswith("1\t␛[31mred␛]0;title␇ �2J␀␡ é\r\nTOKEN")
            assert (SECRET in said) is not redact
    plain = "one\ttwo\r\n\x0c\x85 é"
    assert visible(plain) is plain
