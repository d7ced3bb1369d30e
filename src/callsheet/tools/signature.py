"""Derive the JSON Schema and the converter of a tool's arguments from its signature and docstring.

Type hints may be anything that msgspec has a schema for (plain types, Literal, Optional, lists, dicts, enums,
dataclasses, TypedDicts, structs), `Path`, and pydantic's models. `Annotated[int, "the text"]` documents an
argument, as does the docstring, in Google's, NumPy's or Sphinx's style; `Annotated[int, msgspec.Meta(ge=0)]`
bounds it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta

from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, is_list, is_object
from callsheet.report.patterns import lazy
from callsheet.tools.workspace import ENTRY, check_path

_SECTION = lazy(
    r"(?:(Args|Arguments|Parameters|Params)|Returns?|Yields?|Raises|Examples?|Notes?|Warnings?"
    r"|Attributes|See Also|References)(:)?\s*$"
)
_GOOGLE_ARG = lazy(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ARG = lazy(r"\*{0,2}(\w+)\s*(?::.*)?()$")
_SPHINX_ARG = lazy(r":param(?:\s+[^:\s]+)??\s+\*{0,2}(\w+)\s*:\s*(.*)$")
_SPHINX_FIELD = lazy(r":\w+[^:]*:")


class Doc(NamedTuple):
    """The text before the arguments, and the text of each."""

    text: str
    arguments: dict[str, str]


def read_docstring(docstring: str | None) -> Doc:
    """Parse a docstring. Its arguments may be in Google's, NumPy's or Sphinx's style."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    text: list[str] = []
    found: dict[str, list[str]] = {}
    argument, depth, name = _SPHINX_ARG, 0, ""
    is_text = True
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        indent = len(line) - len(line.lstrip())
        section = _SECTION.match(line) if line.strip() else None
        if section and (section[2] or _is_rule(below)):
            # A line of its own opens a section: `Args:`, or, underlined, `Parameters`.
            is_text, name = False, ""
            argument, depth = (_GOOGLE_ARG, -1) if section[2] else (_NUMPY_ARG, 0)
            argument = argument if section[1] else _SPHINX_ARG
        elif is_text and not _SPHINX_FIELD.match(line):
            text.append(line)
        elif line.strip() and not _is_rule(line):
            is_text = False
            if depth < 0:  # in Google's style, all arguments stand where the first one does
                depth = indent
            entry = argument.match(line.strip()) if indent == depth else None
            if entry:
                name = entry[1]
                found[name] = [entry[2]]
            elif name and indent > depth:
                found[name].append(line)
            else:
                name = ""
    arguments = {
        name: " ".join(line.strip() for line in parts if line.strip())
        for name, parts in found.items()
    }
    return Doc("\n".join(text).strip(), arguments)


def _is_rule(line: str) -> bool:
    return len(line) >= 3 and set(line.strip()) == {"-"}


_PLAIN = (type(None), bool, int, float, str, bytes, Enum)
"""Types of defaults that can be shared between calls, because they are immutable."""


class BadTool(CallsheetError, TypeError):
    """A function can't be a tool as it is."""


class PathArgument(NamedTuple):
    """An argument that is a path, or holds some: by its name, and whether the entry itself is meant."""

    name: str
    entry: bool


class Parameters(NamedTuple):
    """The parameters of a tool's function. Without a `convert`, it takes the arguments as they are."""

    schema: JsonObject
    convert: Callable[[Mapping[str, Any]], dict[str, Any]] | None
    paths: tuple[PathArgument, ...]
    takes_call: bool
    returns_result: bool = False
    """Whether the function is declared to return a `ToolResult`."""


def read_signature(function: Callable[..., Any], name: str, doc: Doc) -> Parameters:
    """Return the parameters of a function.

    Raises:
        BadTool: A parameter can't be described by a schema.
    """
    from callsheet.tools.result import ToolResult

    hints = _hints(function, name)
    given = list(inspect.signature(function).parameters.values())
    takes_call = bool(given) and _is_call(given[0], hints)
    fields = [_field(parameter, hints, name, doc) for parameter in given[takes_call:]]
    struct = msgspec.defstruct(
        f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True
    )
    paths = tuple(
        PathArgument(one.name, ENTRY in get_args(hints[one.name]))
        for one in given[takes_call:]
        if _has_path(hints[one.name], name, one.name)
    )
    schema = _schema_of(struct, name)
    for parameter in given[takes_call:]:
        _add_default(schema["properties"][parameter.name], parameter.default)
    returns_result = hints.get("return") is ToolResult
    return Parameters(schema, _converter(struct), paths, takes_call, returns_result)


def _has_path(hint: Any, tool: str, argument: str) -> bool:
    """Return whether a hint has a `Path` somewhere, or a pydantic model, which may have one."""
    hook = _SchemaHook()
    try:
        msgspec.json.schema(hint, schema_hook=hook)
    except (TypeError, RuntimeError):
        shown = getattr(hint, "__name__", hint)
        raise BadTool(
            f"tool {tool!r}: the argument {argument!r} has the hint {shown}, which JSON can't be turned "
            "into; take plain types, Literal, lists, dicts, dataclasses, pydantic models or Path"
        ) from None
    return hook.is_used


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as exc:
        # `Call` is often imported for checkers only, and it is no argument of the tool.
        names = {**_known_names(), **getattr(function, "__globals__", {})}
        try:
            return get_type_hints(function, globalns=names, include_extras=True)
        except (NameError, TypeError):
            raise BadTool(
                f"tool {name!r}: the hint {exc.name!r} can't be found when the module runs; "
                "import it there, not only for type checkers"
            ) from None


def _known_names() -> dict[str, Any]:
    from callsheet.tools.result import ToolResult
    from callsheet.tools.session import Call

    return {"Call": Call, "ToolResult": ToolResult, "Path": Path}


def _is_call(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    from callsheet.runtime.call import RuntimeCall

    hint = hints.get(parameter.name)
    if hint is None:
        return parameter.name == "call"
    return isinstance(hint, type) and issubclass(hint, RuntimeCall)


def _field(
    parameter: inspect.Parameter, hints: dict[str, Any], tool: str, doc: Doc
) -> tuple[str, Any, Any]:
    name = parameter.name
    if _is_call(parameter, hints):
        raise BadTool(f"tool {tool!r}: {name}: Call has to be the first parameter")
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise BadTool(f"tool {tool!r}: *{name} can't be described to a model; name each argument")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise BadTool(f"tool {tool!r}: {name} is positional only; arguments come by their names")
    if name not in hints:
        raise BadTool(
            f"tool {tool!r}: the argument {name!r} needs a type hint, such as {name}: str"
        )
    hint = _as_written(hints[name])
    text = _text_in(hint) or doc.arguments.get(name)
    if text:
        hint = Annotated[hint, Meta(description=text)]
    default = NODEFAULT if parameter.default is parameter.empty else parameter.default
    if default is NODEFAULT or isinstance(default, _PLAIN):
        return name, hint, msgspec.field(default=default)
    return name, hint, msgspec.field(default_factory=lambda: deepcopy(default))


def _as_written(hint: Any) -> Any:
    """Return the hint by which an argument is converted: a path stays the text that it was written as.

    The executor resolves it. `Path` would leave out dots, which matter behind a link.
    """
    if hint == Path:
        return str
    if get_origin(hint) is Annotated:
        meant, *notes = get_args(hint)
        return Annotated[_as_written(meant), *notes]
    return str | None if hint == Path | None else hint


def _add_default(schema: JsonObject, default: Any) -> None:
    """Put a default into a schema, where it is not yet, and can be encoded."""
    if default is inspect.Parameter.empty or isinstance(default, _PLAIN):
        return
    with suppress(TypeError, ValueError, NotImplementedError):
        schema.setdefault("default", msgspec.to_builtins(default, enc_hook=_encode_hook))


def _text_in(hint: Any) -> str | None:
    """Return the text in `Annotated[int, "the text"]`."""
    if get_origin(hint) is Annotated:
        return next((extra for extra in get_args(hint)[1:] if isinstance(extra, str)), None)
    return None


# To and from JSON


def _schema_of(struct: type[msgspec.Struct], tool: str) -> JsonObject:
    hook = _SchemaHook()
    try:
        (top,), parts = msgspec.json.schema_components(
            [struct], schema_hook=hook, ref_template="#/$defs/{name}"
        )
    except (TypeError, RuntimeError) as exc:
        raise BadTool(f"tool {tool!r}: an argument has a hint without a schema: {exc}") from None
    schema: JsonObject = parts.pop(top["$ref"].rpartition("/")[2])
    schema.pop("title", None)
    schema.setdefault("required", [])
    if parts or hook.parts:
        schema["$defs"] = {**parts, **hook.parts}
    return schema


class _SchemaHook:
    """Returns the schema of what msgspec does not know. What it refers to is in `parts`, for the top."""

    def __init__(self) -> None:
        self.parts: JsonObject = {}
        self.is_used: bool = False
        self._kinds: list[type] = []

    def __call__(self, kind: type) -> JsonObject:
        self.is_used = True
        if kind is Path:
            return {"type": "string"}
        make = getattr(kind, "model_json_schema", None)
        if make is None:
            raise NotImplementedError
        if kind not in self._kinds:
            self._kinds.append(kind)
        prefix = f"{kind.__name__}.{self._kinds.index(kind)}."  # two may have one name
        schema: JsonObject = make(ref_template=f"#/$defs/{prefix}{{model}}")
        self.parts |= {prefix + name: part for name, part in schema.pop("$defs", {}).items()}
        return schema


def _converter(struct: type[msgspec.Struct]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    def convert(arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            made = msgspec.convert(arguments, struct, dec_hook=_decode_hook)
        except msgspec.ValidationError:
            # 3.0 is a whole number in JSON, and for the schema.
            made = msgspec.convert(_whole(arguments), struct, dec_hook=_decode_hook)
        return msgspec.structs.asdict(made)

    return convert


def _whole(value: Any) -> Any:
    """Return a value in which floats without a fraction, such as 3.0, are integers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if is_list(value):
        return [_whole(item) for item in value]
    return {key: _whole(item) for key, item in value.items()} if is_object(value) else value


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise NotImplementedError
    return dump(mode="json")


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is Path:
        check_path(value)
        return Path(value)
    return kind.model_validate(value)  # type: ignore[attr-defined]
