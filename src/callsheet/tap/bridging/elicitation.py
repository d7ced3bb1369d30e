"""Forms and pages that an agent asks a user to fill in."""

from __future__ import annotations

from callsheet.acp.blocks import as_object
from callsheet.report.json import JsonObject, JsonValue, is_object

from .translated import Translated

_FORMATS = ("email", "uri", "date", "date-time")


def form_for_v2(params: JsonObject) -> JsonObject:
    """Return the params of v1's `elicitation/create` for v2, which needs what v1 may leave out."""
    if params.get("mode") != "form":
        return params
    schema = as_object(params.get("requestedSchema"), "requestedSchema")
    if "type" in schema and "properties" in schema:
        return params
    return {**params, "requestedSchema": {"type": "object", "properties": {}, **schema}}


def form_for_v1(params: JsonObject, said: Translated) -> JsonObject:
    """Return the params of v2's `elicitation/create` for v1, without formats that it does not know."""
    if params.get("mode") != "form":
        return params
    schema = as_object(params.get("requestedSchema"), "requestedSchema")
    fields = as_object(schema.get("properties"), "properties")
    told = {name: _plain(one, said) for name, one in fields.items()}
    if all(one is fields[name] for name, one in told.items()):
        return params
    return {**params, "requestedSchema": {**schema, "properties": told}}


def _plain(field: JsonValue, said: Translated) -> JsonValue:
    if not is_object(field) or field.get("type") != "string":
        return field
    if field.get("format") in (None, *_FORMATS):
        return field
    said.lose(f"format {field['format']}")
    return {name: value for name, value in field.items() if name != "format"}
