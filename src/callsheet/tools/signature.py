"""What a function takes, read off its signature: a JSON Schema, and how arguments become Python values.

Hints may be anything that msgspec has a schema for (plain types, Literal, Optional, lists, dicts, enums,
dataclasses, TypedDicts, structs), `Path`, and pydantic's models. `Annotated[int, "the text"]` documents an
argument, as does the docstring; `Annotated[int, msgspec.Meta(ge=0)]` bounds it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta

from callsheet.report.errors import CallsheetError
from callsheet.report.values import JsonObject

from .docstrings import Doc
from .workspace import ENTRY


class BadTool(CallsheetError, TypeError):
    """A function can't be a tool as it is."""


class PathArgument(NamedTuple):
    """An argument that is a path: by its name, and whether the entry itself is meant."""

    name: str
    entry: bool


class Parameters(NamedTuple):
    """What a tool's function takes."""

    schema: JsonObject
    convert: Callable[[Mapping[str, Any]], dict[str, Any]]
    paths: tuple[PathArgument, ...]
    takes_call: bool


def read_signature(function: Callable[..., Any], name: str, doc: Doc) -> Parameters:
    """Read what a function takes. Raises `BadTool` if a model could not be told."""
    hints = _hints(function, name)
    given = list(inspect.signature(function).parameters.values())
    takes_call = bool(given) and _is_call(given[0], hints)
    fields: list[Any] = []
    paths: list[PathArgument] = []
    for parameter in given[takes_call:]:
        fields.append(_field(parameter, hints, name, doc))
        path = _path(parameter.name, hints.get(parameter.name))
        if path is not None:
            paths.append(path)
    struct = msgspec.defstruct(
        f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True
    )
    return Parameters(_schema_of(struct, name), _converter(struct), tuple(paths), takes_call)


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
    from .result import ToolResult
    from .session import Call

    return {"Call": Call, "ToolResult": ToolResult, "Path": Path}


def _is_call(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    from callsheet.runtime.call import Call

    hint = hints.get(parameter.name)
    if hint is None:
        return parameter.name == "call"
    return isinstance(hint, type) and issubclass(hint, Call)


def _field(
    parameter: inspect.Parameter, hints: dict[str, Any], tool: str, doc: Doc
) -> tuple[str, Any, Any]:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise BadTool(f"tool {tool!r}: *{name} can't be told to a model; name each argument")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise BadTool(f"tool {tool!r}: {name} is positional only; arguments come by their names")
    if name not in hints:
        raise BadTool(
            f"tool {tool!r}: the argument {name!r} needs a type hint, such as {name}: str"
        )
    hint = hints[name]
    said = _said_in(hint) or doc.arguments.get(name)
    if said:
        hint = Annotated[hint, Meta(description=said)]
    default = NODEFAULT if parameter.default is parameter.empty else parameter.default
    if isinstance(default, (list, dict, set)):
        return name, hint, msgspec.field(default_factory=cast("list[Any]", default).copy)
    return name, hint, msgspec.field(default=default)


def _said_in(hint: Any) -> str | None:
    """Give the text in `Annotated[int, "the text"]`."""
    if get_origin(hint) is Annotated:
        return next((extra for extra in get_args(hint)[1:] if isinstance(extra, str)), None)
    return None


def _path(name: str, hint: Any) -> PathArgument | None:
    """Tell whether a hint is `Path`, `Path | None` or `Entry`."""
    entry = False
    while get_origin(hint) is Annotated:
        entry = entry or ENTRY in get_args(hint)
        hint = get_args(hint)[0]
    if hint is Path:
        return PathArgument(name, entry)
    for inner in get_args(hint):
        found = _path(name, inner) if inner is not type(None) else None
        if found is not None:
            return found._replace(entry=entry or found.entry)
    return None


# To and from JSON


def _schema_of(struct: type[msgspec.Struct], tool: str) -> JsonObject:
    try:
        (top,), parts = msgspec.json.schema_components(
            [struct], schema_hook=_schema_hook, ref_template="#/$defs/{name}"
        )
    except (TypeError, RuntimeError) as exc:
        raise BadTool(f"tool {tool!r}: an argument has a hint without a schema: {exc}") from None
    schema: JsonObject = parts.pop(top["$ref"].rpartition("/")[2])
    schema.pop("title", None)
    schema.setdefault("required", [])
    if parts:
        schema["$defs"] = parts
    return schema


def _schema_hook(kind: type) -> JsonObject:
    if kind is Path:
        return {"type": "string"}
    make = getattr(kind, "model_json_schema", None)
    if make is not None:
        return make()
    raise NotImplementedError


def _converter(struct: type[msgspec.Struct]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    names = struct.__struct_fields__

    def convert(arguments: Mapping[str, Any]) -> dict[str, Any]:
        made = msgspec.convert(arguments, struct, dec_hook=_decode_hook)
        return {name: getattr(made, name) for name in names}

    return convert


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    return kind.model_validate(value)  # type: ignore[attr-defined]
