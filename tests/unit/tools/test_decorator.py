"""A plain function becomes a tool: what a model is told is read off the function."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Optional, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest

from callsheet import Call, Session, ToolResult, tool
from callsheet.tools.signature import BadTool, read_docstring
from callsheet.tools.tool import Registry
from callsheet.tools.workspace import Entry


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Box:
    corner: Point
    tags: list[str]


class Options(TypedDict, total=False):
    deep: bool


class Model(pydantic.BaseModel):
    size: int


@tool
def everything(
    text: str,
    mode: Literal["fast", "slow"] = "fast",
    count: Optional[int] = None,  # noqa: UP045 - both ways of writing it
    names: list[str] = [],  # noqa: B006 - it must be copied
    box: Box | None = None,
    colour: Colour = Colour.RED,
    options: Options | None = None,
    model: Model | None = None,
    level: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1,
    other: Annotated[str, "said at the hint"] = "",
) -> dict[str, object]:
    """Do everything.

    In two paragraphs.

    Args:
        text: The text,
            on two lines.
        mode (str): How.
        level: From one to nine.

    Returns:
        All of it.
    """
    names.append("used")
    return {"text": text, "box": box, "colour": colour, "names": names, "model": model}


def test_name_and_description_come_from_the_function():
    assert everything.name == "everything"
    assert everything.description == "Do everything.\n\nIn two paragraphs."


def test_the_schema_is_a_valid_schema_of_the_signature():
    schema = everything.schema
    jsonschema_rs.meta.validate(schema)
    properties = schema["properties"]
    assert schema["required"] == ["text"]
    assert schema["additionalProperties"] is False
    assert properties["text"] == {"type": "string", "description": "The text, on two lines."}
    assert properties["mode"]["enum"] == ["fast", "slow"]
    assert properties["mode"]["default"] == "fast"
    assert properties["mode"]["description"] == "How."
    assert {"type": "null"} in properties["count"]["anyOf"]
    assert properties["names"]["items"] == {"type": "string"}
    assert properties["level"]["minimum"] == 1
    assert properties["level"]["description"] == "From one to nine."
    assert properties["other"]["description"] == "said at the hint"
    assert schema["$defs"]["Point"]["properties"]["x"] == {"type": "integer"}


async def test_values_arrive_as_their_types_and_defaults_are_not_shared():
    async with Session("s", tools=[everything], strict=True) as session:
        arguments = {"text": "a", "box": {"corner": {"x": 1}, "tags": ["t"]}, "colour": "blue"}
        for _ in range(2):
            result = await session.run("everything", {**arguments, "model": {"size": 3}})
            assert result.success, result
            data = result.metadata["result"]
            assert data["box"] == {"corner": {"x": 1, "y": 0}, "tags": ["t"]}
            assert data["colour"] == "blue"
            assert data["names"] == ["used"]
            assert data["model"] == {"size": 3}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "missing argument: text (a string); everything takes text, mode"),
        ({"text": 5}, "text: expected a string, got 5"),
        ({"text": "a", "txt": 1}, "unknown argument txt (did you mean 'text'?)"),
        ({"text": "a", "qqqq": 1}, "unknown argument qqqq (known: text, mode"),
        ({"text": "a", "mode": "fst"}, 'mode: expected one of "fast", "slow", got "fst"'),
        ({"text": "a", "level": 12}, "level: expected a whole number from 1 on, up to 9, got 12"),
        ({"text": "a", "count": "3"}, 'count: expected a whole number or null, got "3"'),
        ({"text": "a", "names": ["a", 2]}, "names[1]: expected a string, got 2"),
        ({"text": "a", "box": {"tags": []}}, "box"),
        ({"text": "a", "model": {"size": "x"}}, "model"),
        ("text", "expected the arguments as an object, got str"),
        ([], "expected the arguments as an object, got list"),
    ],
)
async def test_a_wrong_argument_is_named_with_what_is_allowed(arguments, said):
    async with Session("s", tools=[everything], strict=True) as session:
        result = await session.run("everything", arguments)
    assert not result.success
    assert said in result.error, result.error
    assert result.metadata["error_code"] == "invalid_arguments"


def test_a_tool_can_still_be_called_like_its_function():
    @tool
    def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    assert double(4) == 8


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x, "type hint"),
        (lambda *x: x, r"\*x can't be described"),
        (lambda x, /: x, "positional only"),
    ],
)
def test_a_function_that_cannot_be_described_is_refused(function, said):
    function.__name__ = "f"
    with pytest.raises(BadTool, match=said):
        tool(function)


def test_other_mistakes_are_refused_when_the_tool_is_made():
    def good(path: str) -> str:
        """Do."""
        return path

    with pytest.raises(BadTool, match="writes: 'path' is not an argument with a Path"):
        tool(writes=["path"])(good)
    with pytest.raises(BadTool, match="above 0, got -1"):
        tool(timeout=-1)(good)
    with pytest.raises(BadTool, match="there is no option tiemout"):
        tool(tiemout=1)(good)  # pyright: ignore[reportCallIssue]
    with pytest.raises(BadTool, match="a name has letters"):
        tool(name="a b")(good)
    with pytest.raises(ValueError, match="kind"):
        tool(kind="reads")(good)

    def odd(path: object.__class__) -> str:
        return ""

    with pytest.raises(BadTool, match="the argument 'path' has the hint type, which JSON can't"):
        tool(odd)

    def late(path: str, call: Call) -> str:
        return path

    with pytest.raises(BadTool, match="call: Call has to be the first parameter"):
        tool(late)


def test_read_only_follows_the_kind_unless_it_is_declared():
    def f(path: Path) -> str:
        """Do."""
        return ""

    assert tool(kind="read")(f).read_only
    assert not tool(kind="edit")(f).read_only
    assert not tool(f).read_only
    assert tool(read_only=True)(f).read_only
    assert tool(kind="edit")(f).writes == {"path"}
    assert tool(kind="read")(f).writes == frozenset()


def test_paths_are_text_in_the_schema():
    @tool
    def f(call: Call, path: Path, other: Path | None = None) -> ToolResult:
        """Do."""
        return call.success("")

    assert f.schema["properties"]["path"] == {"type": "string"}
    assert "call" not in f.schema["properties"]
    assert [path.name for path in f.paths] == ["path", "other"]


STYLES = [
    """Do it.

    Parameters
    ----------
    a : int
        The first.
    b
        The second,
        going on.

    Returns
    -------
    str
    """,
    """Do it.

    :param a: The first.
    :param int b: The second,
        going on.
    :returns: nothing
    """,
    """Do it.

    Args:
        a: The first.
        b (int, optional): The second,
            going on.
    """,
]


@pytest.mark.parametrize("docstring", STYLES)
def test_every_common_style_of_docstring_is_read(docstring):
    doc = read_docstring(docstring)
    assert doc.text == "Do it."
    assert doc.arguments == {"a": "The first.", "b": "The second, going on."}


def test_a_docstring_may_be_missing_or_have_no_arguments():
    assert read_docstring(None) == ("", {})
    assert (
        read_docstring("One: two.\n\nNote: not a section").text
        == "One: two.\n\nNote: not a section"
    )


def test_two_tools_of_one_name_are_refused_and_a_builtin_can_be_replaced():
    @tool(name="read")
    def mine(path: str) -> str:
        """Mine."""
        return path

    assert Registry([mine]).get("read") is mine
    with pytest.raises(BadTool, match="two tools named 'read'"):
        Registry([mine, mine])
    assert Registry(builtin=False).names() == []
    assert "reed" not in Registry()
    assert Registry().nearest("reed")[0] == "read"


# Paths and defaults of every shape


class Job(msgspec.Struct):
    files: list[Path]
    note: str = ""


class Inner(pydantic.BaseModel):
    n: int = 0
    file: Path = Path("inner")


class Outer(pydantic.BaseModel):
    inner: Inner
    more: list[Inner] = []


@tool
def shapes(
    one: Path = Path("here"),
    some: list[Path] | None = None,
    named: dict[str, Path] = {},  # noqa: B006
    job: Job = Job([Path("job")]),  # noqa: B008
    outer: Outer | None = None,
) -> str:
    """Take paths."""
    return repr((one, some, named, job, outer))


async def test_paths_are_held_inside_wherever_they_are_in_an_argument(tmp_path):
    async with Session(cwd=tmp_path, tools=[shapes], permission="allow") as session:
        assert session.tools.get("shapes").schema["properties"]["one"]["default"] == "here"
        result = await session.run("shapes", {})
        assert result.success, result
        for name in ("here", "job"):
            assert repr(tmp_path / name) in result.output
        good = {"inner": {"file": "a"}, "more": [{"file": "b"}, {}]}
        result = await session.run("shapes", {"some": ["c"], "named": {"x": "d"}, "outer": good})
        assert result.success, result
        for name in ("a", "b", "c", "d", "inner"):
            assert repr(tmp_path / name) in result.output
        for bad in (
            {"some": ["a", "/etc/passwd"]},
            {"named": {"x": "../x"}},
            {"job": {"files": ["/etc/passwd"]}},
            {"outer": {"inner": {}, "more": [{"file": "/etc/passwd"}]}},
        ):
            result = await session.run("shapes", bad)
            assert result.metadata["error_code"] == "permission_denied", result


async def test_a_whole_number_with_a_point_is_a_whole_number():
    @tool
    def count(n: int, x: float = 1.0) -> str:
        """Count."""
        return repr((n, x))

    async with Session(tools=[count]) as session:
        assert (await session.run("count", {"n": 3.0, "x": 2.0})).output == "(3, 2.0)"
        result = await session.run("count", {"n": 3.5})
        assert result.error == "count: n: expected a whole number, got 3.5"


async def test_a_path_is_passed_on_as_it_was_written_until_it_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    seen: list[Path | None] = []

    @tool(read_only=True)
    def look(plain: Path, own: Entry, noted: Annotated[Path | None, "the other"] = None) -> None:
        """Look."""
        seen.extend([plain, noted, own])

    async with Session(cwd=tmp_path, tools=[look]) as session:
        await session.run("look", {"plain": "link/../target", "noted": "link/.", "own": "link"})
    assert seen == [tmp_path / "target", tmp_path / "target", tmp_path / "link"]
