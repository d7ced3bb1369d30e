"""`ToolResult`, the format of every tool's result.

`output` is for users and models, `metadata` for programs. A result is immutable. It is created by
`ToolResult.success` or `ToolResult.error` (or by the methods of a call with these names), and extended by
`with_…` methods, which return a new one. The executor adds the call's id, the tool's name, the time and the
duration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Self, TypeAlias, TypeVar, final, overload

from callsheet.limits.to_json import fix_text, jsonsafe
from callsheet.report.content import ContentLike, ToolCallContent, to_content
from callsheet.report.errors import CallsheetError, InvalidValue
from callsheet.report.json import JsonValue, freeze

from .errors import ToolError

NO_OUTPUT = "(no output)"
"""The output of a tool that has none."""

NO_MESSAGE = "The tool failed and did not say why"

Fields: TypeAlias = "dict[str, Any]"
Make = TypeVar("Make")
Value = TypeVar("Value")

_NOTHING: Mapping[str, JsonValue] = MappingProxyType({})
_EXACT = 2**53 - 1
"""The largest whole number that every reader of JSON takes as it is."""


class ByHand(CallsheetError, TypeError):
    """A result can't be constructed or changed directly."""


def _succeeded(call_id: str, tool_name: str, output: str) -> ToolResult:
    """Return the result of a tool that succeeded. `output` is the text for users and models."""
    text = _text(output, "output")
    return _made(call_id, tool_name, True, text if text.strip() else NO_OUTPUT)


def _failed(
    call_id: str, tool_name: str, error: str | ToolError, *, output: str = ""
) -> ToolResult:
    """Return the result of a tool that failed. `error` is what was wrong, and what would be right."""
    metadata, exit_code = _NOTHING, None
    if isinstance(error, ToolError):
        own = {key: _own(value) for key, value in error.metadata.items()}
        metadata = MappingProxyType({**own, "error_code": error.code, "retry": error.retry})
        output, exit_code, error = output or error.output, error.exit_code, str(error)
    message = _text(error, "error").strip() or NO_MESSAGE
    text = _text(output, "output")
    if message not in text:
        text = f"{text.rstrip()}\n\n{message}" if text.strip() else message
    return _made(call_id, tool_name, False, text, message, exit_code, metadata)


class _Outcome(Generic[Make, Value]):
    """On the class, the function that makes a result; a result's own field of that name hides it."""

    def __init__(self, make: Make) -> None:
        self._make: Make = make

    @overload
    def __get__(self, result: None, owner: type[ToolResult]) -> Make: ...
    @overload
    def __get__(self, result: ToolResult, owner: type[ToolResult]) -> Value: ...
    def __get__(self, result: ToolResult | None, owner: type[ToolResult]) -> Any:
        return self._make


@final
class ToolResult:
    """The result of a tool.

    - `ToolResult.success(call_id, tool_name, output)`
    - `ToolResult.error(call_id, tool_name, error)`, with a message or a `ToolError`; `output=` is what
      there is besides. The result's output then has both.

    Read `success` and `error` of a result to know which it is.
    """

    success = _Outcome[Callable[[str, str, str], "ToolResult"], bool](_succeeded)
    error = _Outcome[Callable[..., "ToolResult"], "str | None"](_failed)
    call_id: str
    tool_name: str
    output: str
    """The text for users and models. Never empty; for a failure, it includes the error."""
    exit_code: int | None
    """The exit code, if the tool ran something that has one."""
    execution_time_ms: float | None
    metadata: Mapping[str, JsonValue]
    """The values for programs."""
    content: tuple[ToolCallContent, ...]
    """The content besides the text, such as images and links."""
    is_written: bool
    """Whether the output was already sent live."""

    def __init__(self, *_: object, **__: object) -> None:
        raise ByHand(
            "a ToolResult is not built by hand; use ToolResult.success(call_id, tool_name, output) or "
            "ToolResult.error(call_id, tool_name, error), or call.success(output) and call.error(error)"
        )

    # Enriching. Each returns a new result.

    def with_metadata(self, key: str, value: JsonValue) -> Self:
        """Return a result with one more metadata value."""
        return self.with_all_metadata({key: value})

    def with_all_metadata(self, values: Mapping[str, JsonValue]) -> Self:
        """Return a result with more metadata values."""
        for key in values:
            if not isinstance(key, str) or not key:
                raise InvalidValue(f"metadata: a key is a name, got {key!r}")
        own = {key: _own(value) for key, value in values.items()}
        return self._with(metadata=MappingProxyType({**self.metadata, **own}))

    def with_execution_time(self, ms: float) -> Self:
        """Return a result with the duration set. The executor does this for every tool that it runs."""
        if isinstance(ms, bool) or not isinstance(ms, (int, float)) or not 0 <= ms < float("inf"):
            raise InvalidValue(f"execution time: expected milliseconds from 0 on, got {ms!r}")
        return self._with(execution_time_ms=ms)

    def with_exit_code(self, code: int) -> Self:
        """Return a result with the exit code set."""
        if isinstance(code, bool) or not isinstance(code, int):
            raise InvalidValue(f"exit code: expected a whole number, got {code!r}")
        return self._with(exit_code=code)

    def with_content(self, *items: ContentLike) -> Self:
        """Return a result with more content besides the text: images, audio, links, resources."""
        return self._with(content=(*self.content, *[to_content(item) for item in items]))

    def as_written(self) -> Self:
        """Return a result whose output is marked as sent live, so that it is not shown twice."""
        return self._with(is_written=True)

    def stamped(self, call_id: str, tool_name: str, ms: float, values: Fields) -> Self:
        """Return a result with the call, the duration and the common metadata set.

        Metadata that the tool has set takes precedence, except for the timestamp.
        """
        metadata = MappingProxyType({**values, **self.metadata, "timestamp": values["timestamp"]})
        return self._with(
            call_id=call_id, tool_name=tool_name, execution_time_ms=ms, metadata=metadata
        )

    def _with(self, **changed: Any) -> Self:
        return _of_fields({**vars(self), **changed})

    # Reading

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the result as plain data. `content` is included only if it is not empty."""
        data: dict[str, Any] = {**vars(self), "metadata": dict(self.metadata)}
        del data["is_written"], data["content"]
        if self.content:
            from callsheet.acp import v1

            data["content"] = v1.encode_items(self.content)
        return data

    def for_model(self) -> str:
        """Return the text for a model. It is never empty."""
        return self.output

    def __setattr__(self, name: str, value: object) -> None:
        raise ByHand(f"a ToolResult never changes; make a new one: result.with_…, not .{name} = …")

    def __delattr__(self, name: str) -> None:
        raise ByHand("a ToolResult never changes")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolResult) and vars(self) == vars(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - its metadata is a mapping

    def __repr__(self) -> str:
        outcome = "success" if self.success else "error"
        text = self.error if self.error is not None else self.output
        text = text if len(text) <= 60 else text[:59] + "…"
        return f"<ToolResult {outcome} of {self.tool_name!r} {self.call_id}: {text!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, ({**vars(self), "metadata": dict(self.metadata)},)


def _made(
    call_id: str,
    tool_name: str,
    success: bool,
    output: str,
    error: str | None = None,
    exit_code: int | None = None,
    metadata: Mapping[str, JsonValue] = _NOTHING,
) -> ToolResult:
    return _of_fields(
        {
            "call_id": _text(call_id, "call_id"),
            "tool_name": _text(tool_name, "tool_name"),
            "success": success,
            "output": output,
            "error": error,
            "exit_code": exit_code,
            "execution_time_ms": None,
            "metadata": metadata,
            "content": (),
            "is_written": False,
        }
    )


def _of_fields(fields: Fields) -> Any:
    result = object.__new__(ToolResult)
    object.__setattr__(result, "__dict__", fields)
    return result


def _unpickled(fields: Fields) -> ToolResult:
    return _of_fields({**fields, "metadata": MappingProxyType(fields["metadata"])})


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidValue(f"ToolResult: {name} is text, got {type(value).__name__}")
    return value if value.isascii() else fix_text(value)


def _own(value: JsonValue) -> JsonValue:
    """Return a private copy of a value, as JSON, whatever it was."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if value is None or kind is bool or (kind is str and value.isascii()):
        return value
    if kind is int and -_EXACT <= value <= _EXACT:
        return value
    return freeze(jsonsafe(value), "metadata")


def content_of(result: ToolResult) -> ContentLike | Sequence[ContentLike]:
    """Return the content that a call reports for a result: its text, and the content besides."""
    if not result.content:
        return result.output
    if result.success and result.output == NO_OUTPUT:
        return result.content
    return (result.output, *result.content)
