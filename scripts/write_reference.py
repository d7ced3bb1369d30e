"""Write the parts of docs/ that are made from the code: commands, rules, errors, tools, statuses.

A document has a pair of marks around each such part. `--check` writes nothing, and fails where one is stale.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import Any, TypeAlias

import click

from callsheet.acp import v1, v2
from callsheet.acp.codec import as_dict
from callsheet.acp.jsonrpc import ProtocolError
from callsheet.agent.agent import UnknownSession
from callsheet.check.finding import CATEGORIES
from callsheet.check.rules import RULES
from callsheet.cli.app import app
from callsheet.limits.limits import ROOMY, SAFE, Limits
from callsheet.lint.rules import RULES as LINT_RULES
from callsheet.report import errors as report_errors
from callsheet.report.fields import ToolKind
from callsheet.report.report import ToolCallReport
from callsheet.report.status import MOVES, Reason, ToolCallStatus
from callsheet.runtime import health
from callsheet.runtime.options import CallOptions, Links
from callsheet.runtime.rpc import RequestCancelled
from callsheet.runtime.session import RuntimeSession
from callsheet.tools import errors as tool_errors
from callsheet.tools.session import Call, Session
from callsheet.tools.tool import Registry

WIDTH = 140
"""Characters of a line, outside of tables."""

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"(<!-- made by `make docs`: (\w+) -->\n).*?(<!-- /\2 -->)", re.DOTALL)


def row(*cells: object) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    return "\n".join([row(*head), "|" + "---|" * len(head), *(row(*cells) for cells in rows)])


def first_line(thing: object) -> str:
    """Return the first sentence or line of a docstring."""
    return (inspect.getdoc(thing) or "").split("\n")[0]


# The life of a call, and how it looks on the wire

Encode: TypeAlias = Callable[[ToolCallReport, None], Iterable[Any]]
_ENCODERS: tuple[Encode, ...] = (v1.encode, v2.encode)


def lifecycle() -> str:
    """Return the transition table as a Mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR", "    [*] --> pending"]
    for old in ToolCallStatus:
        lines += [f"    {old} --> {new}" for new in ToolCallStatus if new in MOVES[old]]
    lines += [f"    {status} --> [*]" for status in ToolCallStatus if status.is_final]
    return "\n".join([*lines, "```"])


def statuses() -> str:
    """Return how each status is sent, by sending it."""
    rows: list[tuple[str, str, str]] = []
    for status in ToolCallStatus:
        report = ToolCallReport("call_1", title="Testing", status=status)
        rows.append((f"`{status}`", *(_sent(report, "status", encode) for encode in _ENCODERS)))
    return table(("status", "ACP v1", "ACP v2"), rows)


def kinds() -> str:
    """Return how each kind is sent, by sending it."""
    rows: list[tuple[str, str, str]] = []
    for kind in ("_deploy", *ToolKind):
        report = ToolCallReport("call_1", title="Testing", kind=str(kind))
        sent = tuple(_sent(report, "kind", encode) for encode in _ENCODERS)
        if sent != (f"`{kind}`",) * 2:
            rows.append((f"`{kind}` (your own)", *sent))
    same = ", ".join(f"`{kind}`" for kind in ToolKind)
    return f"Sent as they are: {same}. Others:\n\n" + table(("kind", "ACP v1", "ACP v2"), rows)


def _sent(report: ToolCallReport, field: str, encode: Encode) -> str:
    (update,) = (as_dict(update) for update in encode(report, None))
    notes: dict[str, Any] = (update.get("_meta") or {}).get("callsheet", {})
    said = "".join(f", with `_meta.callsheet.{key}: {value!r}`" for key, value in notes.items())
    return f"`{update[field]}`{said}".replace("'", '"')


def limits() -> str:
    """Return the limits that come with callsheet."""
    names = [field for field in Limits.__struct_fields__ if field != "frame"]
    rows = [
        (f"`{name}`", *(_kib(getattr(chosen, field)) for field in (*names, "frame")))
        for name, chosen in (("SAFE", SAFE), ("ROOMY", ROOMY))
    ]
    return table(("limits", *(f"`{name}`" for name in names), "whole line"), rows)


def _kib(size: int) -> str:
    return f"{size // 2**20} MiB" if size >= 2**20 else f"{size // 2**10} KiB"


# Commands


def commands() -> str:
    """Return every command with its options."""
    entries = list(_commands(app, ""))
    many = Counter(_option(option) for _, command in entries for option in _options(command))
    shared = {option for option, count in many.items() if count > 1}
    parts = [
        "Options of several commands:",
        table(("option", "does"), [option for option in many if option in shared]),
    ]
    for name, command in entries:
        parts += _command(name, command, shared)
    return "\n\n".join(parts)


def _commands(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands of a group, each before its own, with their whole names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.resolve_command(context, [name])[1]
        if command is not None:
            yield prefix + name, command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix}{name} ")


def _command(name: str, command: click.Command, shared: set[tuple[str, str]]) -> Iterator[str]:
    context = click.Context(app, info_name="callsheet")
    for part in name.split():
        context = click.Context(command, parent=context, info_name=part)
    yield f"## callsheet {name}"
    usage = " ".join(command.collect_usage_pieces(context)).removeprefix("[OPTIONS]").strip()
    if usage:
        yield f"`callsheet {name} {usage}`"
    yield from _help(command.help or "")
    options = [_option(option) for option in _options(command)]
    own = [option for option in options if option not in shared]
    if own:
        yield table(("option", "does"), own)
    rest = [f"{names.split()[0].strip('`')}" for names, text in options if (names, text) in shared]
    if rest:
        yield f"Also: {', '.join(f'`{name}`' for name in rest)}."


def _help(text: str) -> Iterator[str]:
    """Yield the paragraphs of a command's help. Indented lines are examples."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        body = paragraph.removeprefix("\b\n")
        if body.startswith(" "):
            yield f"```text\n{inspect.cleandoc(body)}\n```"
        else:
            yield fill(body.replace("<", "\\<"), WIDTH, break_on_hyphens=False)


def _options(command: click.Command) -> Iterator[click.Option]:
    yield from (one for one in command.params if isinstance(one, click.Option) and not one.hidden)


def _option(option: click.Option) -> tuple[str, str]:
    names, help_text = option.get_help_record(click.Context(app)) or ("", "")
    return f"`{names}`", " ".join(help_text.split()) or "The form of the output."


# Rules


def check_rules() -> str:
    """Return the rules of `callsheet check`, by category."""
    listed = [rule for category in CATEGORIES for rule in RULES if rule.category == category]
    return "\n".join(f"- `{rule.id}` ({rule.severity}): {rule.title}" for rule in listed)


def lint_rules() -> str:
    """Return the rules of `callsheet lint`."""
    return "\n".join(f"- `{rule.id}`: {rule.title}" for rule in LINT_RULES)


# Errors


def errors() -> str:
    """Return the exceptions of reports and sessions."""
    classes = [*_classes(report_errors), *_classes(health)]
    return table(
        ("exception", "raised when"), [(f"`{one.__name__}`", first_line(one)) for one in classes]
    )


def _classes(module: ModuleType) -> Iterator[type[report_errors.CallsheetError]]:
    for one in vars(module).values():
        is_error = inspect.isclass(one) and issubclass(one, report_errors.CallsheetError)
        if is_error and one.__module__ == module.__name__:
            yield one


def failures() -> str:
    """Return the errors of tools."""
    rows = [
        (f"`{one.__name__}`", f"`{one.code}`", f"`{one.retry}`", first_line(one))
        for one in _classes(tool_errors)
        if issubclass(one, tool_errors.ToolError)
    ]
    return table(("raise", "`error_code`", "`retry`", "when"), rows)


def protocol_errors() -> str:
    """Return the codes of JSON-RPC that an agent answers with."""
    known: dict[int, str] = {}
    classes = [*_subclasses(ProtocolError), UnknownSession, RequestCancelled]
    for one in classes:
        known.setdefault(one.code, one.label)
    return table(("code", "meaning"), sorted(known.items(), reverse=True))


def _subclasses(base: type[ProtocolError]) -> Iterator[type[ProtocolError]]:
    for one in base.__subclasses__():
        yield one
        yield from _subclasses(one)


def reasons() -> str:
    """Return the reasons for which calls end."""
    return ", ".join(f"`{reason}`" for reason in Reason) + "."


# Tools


def tools() -> str:
    """Return the built-in tools, with their arguments."""
    rows: list[tuple[str, str, str]] = []
    for tool in Registry():
        required = set(tool.schema.get("required", ()))
        names = (name if name in required else f"{name}?" for name in tool.schema["properties"])
        rows.append(
            (f"`{tool.name}({', '.join(names)})`", tool.kind or "", first_line_of(tool.description))
        )
    return table(("tool", "kind", "does"), rows)


def first_line_of(text: str) -> str:
    """Return the first sentence of a description."""
    return text.split("\n")[0].split(". ")[0].rstrip(".") + "."


# Sessions and calls


def session() -> str:
    """Return the arguments of `Session`, from the docstrings of it and of what it extends."""
    rows = [entry for one in reversed(Session.__mro__) for entry in _arguments(one)]
    found = {name: text for name, text in rows if "RuntimeSession" not in text}
    return table(("argument", ""), found.items())


def call_options() -> str:
    """Return the options of `Session.call`, from the docstrings that list them."""
    rows = [
        (f"`{name}`", " ".join((text[0].upper() + text[1:]).split()))
        for one in (CallOptions, Links)
        for name, text in re.findall(
            r"^- `(\w+)`: (.*?)(?=^- |\Z)", inspect.getdoc(one) or "", re.M | re.S
        )
    ]
    missing = set(CallOptions.__annotations__) - {name.strip("`") for name, _ in rows}
    if missing:
        raise LookupError(f"options of calls without a text: {', '.join(sorted(missing))}")
    timeout = dict(_arguments(RuntimeSession.call))["`timeout`"]
    return table(("option", ""), [*rows, ("`timeout`", timeout)])


def call_methods() -> str:
    """Return the public methods of a call."""
    names = [name for one in Call.__mro__[-2::-1] for name in vars(one) if not name.startswith("_")]
    rows = [
        (f"`{_signature(name)}`", first_line(getattr(Call, name)))
        for name in dict.fromkeys(names)
        if name in CALL_METHODS
    ]
    return table(("method", "does"), sorted(rows, key=_method_order))


CALL_METHODS = (
    "start", "pause", "resume", "write", "exit", "terminal", "progress", "title", "locate", "diff", "show",
    "update", "custom", "usage", "permission", "call", "success", "error", "succeed", "fail", "cancel",
)  # fmt: skip
"""Methods for authors, in the order in which they are listed; others are for the executor."""


def _method_order(one: tuple[str, str]) -> int:
    return CALL_METHODS.index(one[0].strip("`").removeprefix("await ").partition("(")[0])


def _signature(name: str) -> str:
    method = getattr(Call, name)
    given = [
        one
        for one in inspect.signature(method).parameters.values()
        if one.name != "self" and one.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    taken = [
        f"*{one.name}"
        if one.kind is inspect.Parameter.VAR_POSITIONAL
        else one.name
        if one.default is inspect.Parameter.empty
        else f"{one.name}=…"
        for one in given
    ]
    if len(given) < len(inspect.signature(method).parameters) - 1:
        taken.append("…")
    return f"{'await ' * inspect.iscoroutinefunction(method)}{name}({', '.join(taken)})"


def _arguments(thing: object) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a docstring's `Args`."""
    found = re.search(r"Args:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(thing) or "", re.DOTALL)
    for entry in re.split(r"\n(?=    \w)", found[1]) if found else ():
        name, _, text = " ".join(entry.split()).partition(": ")
        yield f"`{name}`", text


PARTS: dict[str, Callable[[], str]] = {
    made.__name__: made
    for made in (
        lifecycle, statuses, kinds, limits, commands, check_rules, lint_rules, errors, failures,
        protocol_errors, reasons, tools, session, call_options, call_methods,
    )
}  # fmt: skip


def written(text: str) -> str:
    """Return a document with every part as it should be."""
    return MARK.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}\n{found[3]}", text)


def main() -> None:
    """Write, or check."""
    stale: list[str] = []
    for document in sorted((ROOT / "docs").rglob("*.md")):
        text = document.read_text(encoding="utf-8")
        if text != written(text):
            stale.append(document.relative_to(ROOT).as_posix())
            if "--check" not in sys.argv:
                document.write_text(written(text), encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"{', '.join(stale)}: stale; run `make docs`")
    for name in stale:
        print(f"written anew: {name}")


if __name__ == "__main__":
    main()
