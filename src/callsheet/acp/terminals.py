"""Agents' terminals on the wire.

v2 has messages for them: `terminal_update` (facts, and a whole replacement of the output) and
`terminal_output_chunk`.

v1 has none, but clients that declare it understand three keys in a call's `_meta`: `terminal_info`
opens a terminal, `terminal_output` appends, `terminal_exit` ends it. What these can't express (the
command, the size, that the output was replaced) goes beside them under `callsheet_terminal`, in
v2's terms. Clients that understand neither are shown text: see `terminal_text`.
"""

from __future__ import annotations

import binascii
from base64 import b64encode

from msgspec import UNSET

from callsheet.acp.codec import as_object, patch_of, rest
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.report.events import Event, ExitStatus, TerminalChanged, TerminalOutput
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object
from callsheet.report.terminal import TerminalState

INFO, OUTPUT, EXIT, MORE = "terminal_info", "terminal_output", "terminal_exit", "callsheet_terminal"
CLEAR_SCREEN = "\x1b[2J\x1b[3J\x1b[H"

_KNOWN = ("sessionUpdate", "terminalId", "command", "cwd", "output", "exitStatus", "_meta")


# v2


def encode_facts(state: TerminalState) -> JsonObject:
    """Return the fields of `terminal_update` for a terminal, except its output and `_meta`."""
    facts: JsonObject = {**state.extra}
    if state.command is not None:
        facts["command"] = state.command
    if state.cwd is not None:
        facts["cwd"] = state.cwd
    if state.exit_status is not None:
        facts["exitStatus"] = encode_exit(state.exit_status)
    return facts


def encode_exit(status: ExitStatus) -> JsonObject:
    """Return an `exitStatus`."""
    out: JsonObject = dict(status.extra or EMPTY)
    if status.exit_code is not None:
        out["exitCode"] = status.exit_code
    if status.signal is not None:
        out["signal"] = status.signal
    return out


def encode_chunk(terminal_id: str, data: bytes) -> JsonObject:
    """Return a `terminal_output_chunk`."""
    return {
        "sessionUpdate": "terminal_output_chunk",
        "terminalId": terminal_id,
        "data": b64encode(data).decode(),
    }


def encode_update(terminal_id: str, patch: JsonObject) -> JsonObject:
    """Return a `terminal_update`."""
    return {"sessionUpdate": "terminal_update", "terminalId": terminal_id, **patch}


def encode_output(data: bytes) -> JsonObject:
    """Return the whole output, as `terminal_update` replaces it."""
    return {"data": b64encode(data).decode()}


def decode_update(raw: JsonObject) -> TerminalChanged:
    """Read a `terminal_update`."""
    meta = raw.get("_meta", UNSET)
    return TerminalChanged(
        terminal_id=raw.get("terminalId"),  # pyright: ignore[reportArgumentType]
        command=_text_or_null(raw, "command"),
        cwd=_text_or_null(raw, "cwd"),
        output=_decode_output(raw.get("output", UNSET)),
        exit_status=_decode_exit(raw.get("exitStatus", UNSET)),
        meta=meta if meta is not None else UNSET,
        clear_meta=meta is None,
        extra=rest(raw, *_KNOWN) or UNSET,
    )


def decode_chunk(raw: JsonObject) -> TerminalOutput:
    """Read a `terminal_output_chunk`."""
    return TerminalOutput(
        terminal_id=raw.get("terminalId"),  # pyright: ignore[reportArgumentType]
        data=_base64(raw.get("data"), "data"),
    )


def _text_or_null(raw: JsonObject, key: str) -> JsonValue:
    value = raw.get(key, UNSET)
    if value is not UNSET and value is not None and not isinstance(value, str):
        raise InvalidParams(f"{key}: expected text or null, got {type(value).__name__}")
    return value


def _decode_output(output: JsonValue) -> JsonValue:
    if output is UNSET or output is None:
        return output
    return _base64(as_object(output, "output").get("data"), "output.data")


def _decode_exit(status: JsonValue) -> JsonValue:
    if status is UNSET or status is None:
        return status
    raw = as_object(status, "exitStatus")
    return ExitStatus(
        exit_code=raw.get("exitCode"),
        signal=raw.get("signal"),
        extra=rest(raw, "exitCode", "signal"),
    )


def _base64(data: JsonValue, what: str) -> bytes:
    if not isinstance(data, str):
        raise InvalidParams(f"{what}: expected base64 text, got {type(data).__name__}")
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError as exc:
        raise InvalidParams(f"{what}: not base64 ({exc})") from None


# v1


def decode_v1_terminals(meta: JsonObject) -> list[Event]:
    """Return the terminals in a call's `_meta` as events, and remove them from it."""
    info, output, leave, more = (meta.pop(key, None) for key in (INFO, OUTPUT, EXIT, MORE))
    events: list[Event] = []
    if is_object(info):
        events.append(
            TerminalChanged(terminal_id=info.get("terminal_id"), cwd=info.get("cwd", UNSET))  # pyright: ignore[reportArgumentType]
        )
    replaced = is_object(more) and more.get("replaced") is True
    if is_object(output):
        events.append(_decode_v1_output(output, replaced=replaced))
    if is_object(leave):
        status = ExitStatus(exit_code=leave.get("exit_code"), signal=leave.get("signal"))
        events.append(TerminalChanged(terminal_id=leave.get("terminal_id"), exit_status=status))  # pyright: ignore[reportArgumentType]
    if is_object(more):
        events.append(decode_update({k: v for k, v in more.items() if k != "replaced"}))
    return events


def _decode_v1_output(output: JsonObject, *, replaced: bool) -> Event:
    terminal_id, data = output.get("terminal_id"), output.get("data")
    if not isinstance(data, str):
        raise InvalidParams(f"{OUTPUT}.data: expected text, got {type(data).__name__}")
    if replaced:
        raw = data.removeprefix(CLEAR_SCREEN).encode()
        return TerminalChanged(terminal_id=terminal_id, output=raw)  # pyright: ignore[reportArgumentType]
    return TerminalOutput(terminal_id=terminal_id, data=data.encode())  # pyright: ignore[reportArgumentType]


def encode_v1_facts(state: TerminalState, seen: JsonObject, seen_meta: JsonObject) -> JsonObject:
    """Return the changed facts of a terminal as keys of a call's `_meta`."""
    out: JsonObject = {}
    patch = patch_of(seen, encode_facts(state))
    if patch.pop("exitStatus", None) is not None and state.exit_status is not None:
        code, signal = state.exit_status.exit_code, state.exit_status.signal
        out[EXIT] = {"terminal_id": state.terminal_id, "exit_code": code, "signal": signal}
        if state.exit_status.extra:
            patch["exitStatus"] = encode_exit(state.exit_status)
    elif "exitStatus" in seen and state.exit_status is None:
        patch["exitStatus"] = None
    meta = patch_of(seen_meta, state.meta)
    if meta:
        patch["_meta"] = meta
    if patch:
        out[MORE] = {"terminalId": state.terminal_id, **patch}
    return out
