"""Scenes in which peers are told of calls: every outcome, every kind of content, sizes, secrets, languages."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from .parts import (
    FakeClock,
    FileChange,
    PermissionDenied,
    PermissionOption,
    Session,
    ToolCallContent,
    ToolError,
    tool,
)

CPU_MS, RSS_KB = 1234, 56789
"""What a call says that it has used."""

TOKEN = "ghp_" + "Zk3x9Qw7Lm2Rt8Vb5Nc1Yd6Hj4Pf0Sg3TuAe"
OTHER = "sk-ant-api03-" + "Qw7Lm2Rt8Vb5" * 7 + "abcdefgAA"
LANGUAGES = ("en", "de", "es", "fr", "ja", "ko", "pt_BR", "zh_CN")

Play = Callable[[Session, FakeClock], Awaitable[None]]


class Scene(NamedTuple):
    """What is played, the options of its session, and what the client answers when it is asked."""

    play: Play
    options: dict[str, Any]
    answer: Any


SCENES: dict[str, Scene] = {}


def scene(*, answer: Any = None, **options: Any) -> Callable[[Play], Play]:
    """Make a function a scene, under its name."""

    def add(play: Play) -> Play:
        SCENES[play.__name__] = Scene(play, options, answer)
        return play

    return add


# Outcomes


@scene()
async def success(session: Session, clock: FakeClock) -> None:
    async with session.call("read", {"path": "notes.txt", "limit": 20}, alias="toolu_1") as call:
        call.start()
        await clock.advance(0.25)
        call.usage(cpu_ms=CPU_MS, max_rss_kb=RSS_KB)
        call.succeed("1→one\n2→two\n", raw={"lines": 2, "text": "one\ntwo\n"})
    async with session.call("read", {"path": "/home/golden/app/src/main.py", "offset": 7}):
        await clock.advance(1.5)
    with session.call("grep", {"pattern": "def main", "path": "src"}) as call:
        call.succeed(["src/main.py:3: def main():", ToolCallContent.text("1 match")])


@scene()
async def failure(session: Session, clock: FakeClock) -> None:
    with suppress(ValueError):
        async with session.call("bash", {"command": "make test"}) as call:
            call.start()
            await clock.advance(2)
            raise ValueError("no such target: test")
    with session.call("read", {"path": "missing.txt"}) as call:
        call.fail("missing.txt: no such file", raw={"error": "ENOENT"})
    with session.call("fetch", {"url": "https://example.org/a?b=1"}) as call:
        call.start()
        call.fail("the answer is no JSON", reason="invalid_input")
    with session.call("bash", {"command": "python check.py; exit 3"}) as call:
        call.start()
        call.write("checking…\nwrong\n")
        call.exit(3)
    with session.call("bash", {"command": "sleep 100"}) as call:
        call.start()
        call.exit(signal="SIGKILL")


@scene(answer="allow_once")
async def permission(session: Session, clock: FakeClock) -> None:
    command = {"command": "rm -rf build && make install", "timeout": 60}
    async with session.call("bash", command, alias="toolu_ask") as call:
        await call.permission()
        call.start()
        call.succeed("installed")
    async with session.call("edit", {"path": "prices.py"}) as call:
        call.diff("prices.py", "price = 1\n", "price = 2\n")
        await call.permission([PermissionOption("allow_once", "Do it", "allow_once")])
        await clock.advance(0.5)


@scene(answer="reject_once")
async def denial(session: Session, clock: FakeClock) -> None:
    with suppress(PermissionDenied):
        async with session.call("bash", {"command": "rm prices.py"}) as call:
            await clock.advance(3)
            await call.permission()


@scene(answer={"outcome": {"outcome": "cancelled"}})
async def denial_by_cancel(session: Session, clock: FakeClock) -> None:
    with suppress(PermissionDenied):
        async with session.call("write", {"path": "a.txt", "content": "new\n"}) as call:
            await call.permission()


@scene()
async def denial_because_nobody_answers(session: Session, clock: FakeClock) -> None:
    with suppress(PermissionDenied):
        async with session.call("delete", {"path": "a.txt"}) as call:
            await call.permission()


@scene()
async def cancel(session: Session, clock: FakeClock) -> None:
    async with session.call("bash", {"command": "npm run watch"}) as call:
        call.start()
        call.write("watching\n")
        await clock.advance(1)
        call.cancel()
    async with session.call("think", {"thought": "What next?"}) as call:
        call.cancel("The user has changed their mind")
    with suppress(asyncio.CancelledError):
        async with session.call("task", {"description": "Look around"}) as call:
            call.start()
            raise asyncio.CancelledError


@scene()
async def timeout(session: Session, clock: FakeClock) -> None:
    with suppress(TimeoutError):
        async with session.call("bash", {"command": "sleep 5"}, timeout=0.01) as call:
            call.start()
            await asyncio.sleep(5)
    with suppress(TimeoutError):
        async with session.call("fetch", {"url": "https://example.org"}) as call:
            call.start()
            raise TimeoutError


@scene()
async def abandoned(session: Session, clock: FakeClock) -> None:
    session.call("bash", {"command": "make"}).__enter__().start()
    session.call("read", {"path": "a"}).__enter__()


@scene()
async def late_updates(session: Session, clock: FakeClock) -> None:
    async with session.call("bash", {"command": "true"}) as call:
        call.succeed("done")
    call.title("Too late")
    call.write("late output")
    call.show("late content")
    call.progress(1, 2)
    call.fail("late end")
    await clock.advance(1)


@scene()
async def pauses(session: Session, clock: FakeClock) -> None:
    async with session.call("custom_tool", {"step": 1}, title="Waiting for {step}") as call:
        for _ in range(2):
            call.start()
            await clock.advance(0.5)
            call.pause()
            await clock.advance(0.5)
        call.resume()
    async with session.call("custom_tool") as call:
        call.update(status="in_progress", kind="search", title="Now a search", meta={"own": 1})
        call.update(raw_input={"q": "x"}, raw_output={"n": 1}, locations=["a.py"])
        await clock.advance(1)
        call.update(status="completed")


# Live output and content


@scene()
async def streaming(session: Session, clock: FakeClock) -> None:
    async with session.call("bash", {"command": "pytest -q", "cwd": "tests"}) as call:
        call.start()
        for number in range(12):
            call.write(f"test {number} \x1b[32mpassed\x1b[0m\n")
            await clock.advance(0.05 * (number % 4))
        call.write("käse ☕".encode()[:2])
        await clock.advance(1)
        call.write("käse ☕ 👩‍💻".encode()[2:])
        call.write(b"\xff\xfe broken\r\nbar 10%\rbar 99%\r\n\x1b[2Kover\n\x07")
        await clock.advance(1)
        call.exit(0)


@scene()
async def streaming_much(session: Session, clock: FakeClock) -> None:
    async with session.call("bash", {"command": "yes | head -20000"}) as call:
        call.start()
        for number in range(40):
            call.write(f"{number:06} all is well and this line is of a usual length\n" * 100)
            await clock.advance(0.1)
        call.succeed("finished", raw={"exit_code": 0})


@scene()
async def own_terminal(session: Session, clock: FakeClock) -> None:
    async with session.call("bash", {"command": "top"}) as call:
        call.terminal("terminal-of-the-client")
        call.start()
        call.write("load 0.1\n")
        await clock.advance(1)
        call.exit(0)


@scene()
async def growing_content(session: Session, clock: FakeClock) -> None:
    async with session.call("search_web", {"query": "acp"}) as call:
        call.start()
        for number in range(8):
            call.show(f"Result {number}: " + "words " * 10)
            await clock.advance(0.2)
        call.succeed("8 results")


@scene()
async def growing_content_much(session: Session, clock: FakeClock) -> None:
    async with session.call("search_web", {"query": "much"}) as call:
        call.start()
        for number in range(30):
            call.show(f"Result {number}: " + "many words " * 120)
            await clock.advance(0.3)


@scene()
async def content_kinds(session: Session, clock: FakeClock) -> None:
    make = ToolCallContent
    async with session.call("custom_tool", {"all": True}) as call:
        call.start()
        call.show(make.text("# Text\n*marked*", annotations={"audience": ["user"]}))
        call.show(make.image(b"\x89PNG\r\n", "image/png", uri="file:///home/golden/a.png"))
        call.show(make.audio(b"RIFF", "audio/wav"))
        call.show(make.link("https://example.org/a", "a", title="A", mime_type="text/html", size=9))
        call.show(make.resource("file:///home/golden/a.txt", "text of it", "text/plain"))
        call.show(make.resource("file:///home/golden/a.bin", b"\0\1\2"))
        await clock.advance(0.5)
        call.show(make.diff("/home/golden/app/b.txt", "old\n", "new\n"))
        call.show({"any": ["thing", 1]}, ValueError("an error as content"))
        call.write("output, too\n")


@scene()
async def diffs(session: Session, clock: FakeClock) -> None:
    old = "".join(f"line {number}\n" for number in range(40))
    async with session.call("edit", {"path": "a.py", "old_text": "x", "new_text": "y"}) as call:
        call.diff("a.py", old, old.replace("line 7\n", "line seven\n").replace("line 30\n", ""))
        await clock.advance(0.5)
        call.diff("a.py", old, old.replace("line 8\n", "line eight\n"))
    async with session.call("write", {"path": "new.py", "content": "print()\n"}) as call:
        call.diff("new.py", None, "print()\n")
    async with session.call("delete", {"path": "gone.py"}) as call:
        call.diff("gone.py", "print()", None)
    async with session.call("move", {"from": "a.py", "to": "b.py"}) as call:
        moved = ToolCallContent.diff("/x/b.py", "1\r\n2", "1\r\n3", old_path="/x/a.py")
        call.show(moved)
    async with session.call("apply_patch", {"patch": "*** Begin Patch"}) as call:
        call.show(
            ToolCallContent.diffs(
                FileChange(path="/x/c.bin", operation="modify", mime_type="image/png"),
                FileChange(path="/x/d.py", operation="copy", old_path="/x/e.py"),
                FileChange.of_texts("/x/ä ö.py", "é\n", "è\n"),
            )
        )


@scene()
async def progress(session: Session, clock: FakeClock) -> None:
    async with session.call("download", {"url": "https://example.org/big"}) as call:
        call.start()
        for done in range(0, 101, 20):
            call.progress(done, 100, "blocks" if done > 50 else None)
            await clock.advance(0.4)
        call.progress(message="unpacking")
        await clock.advance(0.4)
        call.progress(0.5)
        await clock.advance(0.4)
        call.title("Nearly there")
        call.custom(stage="last", n=1)
        call.custom(n=2)


@scene(additional_directories=["/srv/data"])
async def locations(session: Session, clock: FakeClock) -> None:
    async with session.call("list", {"path": "."}, locations=["src", "/srv/data/x"]) as call:
        call.locate("src/a.py", 3)
        await clock.advance(0.5)
        call.locate("src/a.py", 9)
        call.locate("/home/golden/other.py")
        call.locate("~/elsewhere.py")
        await clock.advance(0.5)
        for number in range(20):
            call.locate(f"many/{number}.py", number + 1)


# Calls that belong together


@scene()
async def batch(session: Session, clock: FakeClock) -> None:
    async with session.batch("Reading 3 files", total=3, summary=True) as group:
        for number in range(3):
            async with group.call("read", {"path": f"{number}.txt"}) as call:
                call.start()
                await clock.advance(0.5)
                call.succeed("text") if number else call.fail("no such file")
    async with session.batch("Without a summary") as group:
        async with group.call("read", {"path": "a.txt"}):
            await clock.advance(0.1)


@scene()
async def children(session: Session, clock: FakeClock) -> None:
    async with session.call("task", {"description": "Find it"}, alias="toolu_task") as parent:
        parent.start()
        async with parent.call("grep", {"pattern": "it"}, alias="toolu_child") as child:
            child.start()
            async with child.call("read", {"path": "it.py"}) as grandchild:
                grandchild.write("it = 1\n")
                await clock.advance(0.2)
        async with session.call("read", {"path": "x"}, parent="toolu_task") as other:
            other.succeed("x")
        async with session.call("bash", {"command": "ls"}, depends_on=[child, other]):
            await clock.advance(0.2)
        parent.succeed("found")


@scene()
async def parallel(session: Session, clock: FakeClock) -> None:
    async with session.call("bash", {"command": "first"}) as one:
        async with session.call("bash", {"command": "second"}) as two:
            for number in range(5):
                one.write(f"one {number}\n")
                two.show(f"two {number}")
                await clock.advance(0.15)
            two.succeed("second is done")
        one.exit(1)


@scene()
async def links(session: Session, clock: FakeClock) -> None:
    annotations = {"title": "Weather", "readOnlyHint": True, "destructiveHint": False}
    async with session.call(
        "mcp__weather__forecast",
        {"city": "Köln"},
        annotations=annotations,
        meta={"vendor": {"k": [1]}},
        custom={"shown": True},
    ) as call:
        call.succeed(raw={"degrees": 21.5})
    async with session.call("anything", kind="fetch", title="Fetching {what}") as call:
        await clock.advance(0.1)


@tool
async def count_words(text: str) -> str:
    """Count words."""
    if not text:
        raise ToolError("text: is empty; give some")
    return f"{len(text.split())} words"


@scene(tools=[count_words], builtin=False)
async def tools(session: Session, clock: FakeClock) -> None:
    await session.run("count_words", {"text": "one two three"}, alias="toolu_2")
    await session.run("count_words", {"text": ""})
    await session.run("count_words", {"txt": "wrong"})
    await session.run("no_such_tool", {})
    await clock.advance(1)


@scene()
async def repeated_updates(session: Session, clock: FakeClock) -> None:
    async with session.call("bash", {"command": "one"}) as call:
        call.start()
        call.start()
        call.title("The same")
        call.title("The same")
        await clock.advance(0.01)
        call.show("one")
        await clock.advance(0.01)


# Sizes


@scene()
async def too_large(session: Session, clock: FakeClock) -> None:
    lines = "".join(f"{number:05} a line of a large text, größer\n" for number in range(3000))
    async with session.call("write", {"path": "big.txt", "content": lines}) as call:
        call.start()
        call.succeed(lines, raw={"text": lines[::-1], "rows": [{"n": n} for n in range(3000)]})
    async with session.call("edit", {"path": "big.txt"}) as call:
        call.diff("big.txt", lines, lines.replace("00007", "seven"))
    async with session.call("t" * 700, title="title " * 500, meta={"big": "m" * 9000}) as call:
        for number in range(40):
            call.locate("/" + "long/" * 60 + str(number))
        call.show(ToolCallContent.image(b"\0" * 60_000, "image/png"))
        call.custom(big="c" * 9000)
    with suppress(ValueError):
        async with session.call("bash", {"command": "x" * 40_000}) as call:
            raise ValueError("long message " * 5000)


# Secrets


@scene(answer="allow_once")
async def secrets(session: Session, clock: FakeClock) -> None:
    header = {"Authorization": f"Bearer {TOKEN}", "Accept": "*/*"}
    command = f"curl -H 'Authorization: Bearer {TOKEN}' https://me:hunter2@example.org"
    async with session.call("fetch", {"url": "https://example.org", "headers": header}) as call:
        call.succeed(f"token: {TOKEN}", raw={"password": "hunter2", "text": f"key {OTHER}"})
    async with session.call("bash", {"command": command, "env": {"API_KEY": OTHER}}) as call:
        await call.permission()
        call.start()
        text = f"first\nexport GITHUB_TOKEN={TOKEN}\nlast {OTHER}\n"
        for place in range(0, len(text), 9):
            call.write(text[place : place + 9])
            await clock.advance(0.1)
        call.exit(0)
    async with session.call("edit", {"path": ".env"}) as call:
        call.diff(".env", f"TOKEN={TOKEN}\n", f"TOKEN={OTHER}\n")
    async with session.call("think", title=f"Using {TOKEN}", locations=[f"/tmp/{TOKEN}"]) as call:
        call.progress(1, 2, f"with {OTHER}")
        await clock.advance(0.5)
        call.custom(note=TOKEN)
        call.show(ToolCallContent.link(f"https://example.org/?access_token={TOKEN}", "link"))
        call.show(ToolCallContent.resource("file:///a", f"password = {OTHER}".encode()))
        call.fail(f"{TOKEN} was refused")


# Odd values


class _Raises:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@scene()
async def odd_values(session: Session, clock: FakeClock) -> None:
    circle: dict[str, Any] = {"name": "circle"}
    circle["self"] = circle
    deep: Any = "bottom"
    for _ in range(300):
        deep = [deep]
    odd = {
        "nan": math.nan,
        "inf": -math.inf,
        "huge": 10**40,
        "bytes": b"\x00\xffabc",
        "path": PurePosixPath("/a/b"),
        "when": [datetime(2024, 2, 29, 12, tzinfo=UTC), date(2024, 1, 1)],
        "decimal": Decimal("1.50"),
        "set": {1},
        "tuple": (1, 2),
        "surrogate": "a\ud800b",
        "control": "\x00\x1b[31m\u202e\u2028",
        "complex": 1j,
        "class": int,
        "error": KeyError("k"),
        "raises": _Raises(),
        1: "number as a key",
        None: "none as a key",
    }
    async with session.call("odd", odd) as call:
        call.succeed(["text\x00\x1b[31m\ud800\u202e", 7, None, b"bytes"], raw=[circle, deep])
    async with session.call("", "a text as the input", title="\n two\nlines \t") as call:
        call.fail(KeyError("k"))
    async with session.call(
        "日本語 tool\n", ["a", "list"], kind="no such kind", timeout=-1
    ) as call:
        call.locate(7)
        call.locate("a\0b", -5)
        call.progress("x", math.nan)  # pyright: ignore[reportArgumentType]
        call.update(no_such_field=1, status="no such status")
        call.update(title=None, content=7)
        call.diff("a", None, None)
        call.show(_Raises())
        call.exit("x")  # pyright: ignore[reportArgumentType]
    with suppress(ExceptionGroup):
        async with session.call("group", parent="no such parent", depends_on=["nothing"]) as call:
            raise ExceptionGroup("two", [ValueError("a"), OSError(2, "No such file", "/x")])


# Languages


def _language(locale: str) -> None:
    async def play(session: Session, clock: FakeClock) -> None:
        calls: list[tuple[str, Any]] = [
            ("read", {"path": "notes.txt", "offset": 5, "limit": 10}),
            ("write", {"path": "new.txt", "content": "x"}),
            ("edit", {"path": "a.py"}),
            ("delete", {"path": "a.py"}),
            ("move", {"source": "a.py", "destination": "b.py"}),
            ("list", {"path": "src"}),
            ("glob", {"pattern": "**/*.py"}),
            ("grep", {"pattern": "def", "path": "src"}),
            ("fetch", {"url": "https://example.org/page"}),
            ("web_search", {"query": "protocol"}),
            ("think", {"thought": "Hm"}),
            ("task", {"description": "Look around"}),
            ("todo_write", {"todos": [{"content": "a", "status": "pending"}]}),
            ("unknown_tool", {"value": 1}),
        ]
        for name, given in calls:
            with session.call(name, given):
                pass
        with session.call("bash", {"command": "false"}) as call:
            call.start()
            call.progress(1, 3)
            await clock.advance(0.5)
            call.exit(2)
        with session.call("bash", {"command": "sleep 1"}) as call:
            call.cancel()
        with suppress(TimeoutError):
            async with session.call("bash", {"command": "sleep 2"}, timeout=0.01):
                await asyncio.sleep(5)
        with session.call("bash", {"command": "yes"}) as call:
            call.succeed("y\n" * 40_000)
        with suppress(PermissionDenied):
            async with session.call("bash", {"command": "rm a"}) as call:
                await call.permission()
        session.call("bash", {"command": "make"}).__enter__()

    SCENES[f"language_{locale}"] = Scene(play, {"locale": locale}, "reject_once")


for _locale in LANGUAGES:
    _language(_locale)
