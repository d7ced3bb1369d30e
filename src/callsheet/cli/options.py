"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import partial, reduce, wraps
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import click

from callsheet.history.amounts import BadAmount, parse_age, parse_moment, parse_size
from callsheet.history.rows import STATUSES
from callsheet.report.errors import CallsheetError

if TYPE_CHECKING:
    from callsheet.telemetry.budget import CostBudget
    from callsheet.tools.mcp import McpServer

_RUNNERS = ("bun", "bunx", "deno", "docker", "dlx", "env", "exec", "node", "npx", "pipx", "pnpm", "python",
            "python3", "run", "uv", "uvx")  # fmt: skip
"""Programs, and their commands, that run another one, which names a server or an agent better."""

SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts")
"""How the names of scripts end."""

_C = TypeVar("_C", bound=Callable[..., Any])


@contextmanager
def usage_errors(before: str = "") -> Generator[None]:
    """Report an error of ours as bad usage of the command; `before` is put before the message."""
    try:
        yield
    except CallsheetError as exc:
        raise click.UsageError(f"{before}{exc}") from None


def _reading(read: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a click callback that reads a value, and reports one that is wrong as bad usage."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else read(value)
        except (BadAmount, CallsheetError) as exc:
            raise click.BadParameter(str(exc), ctx, param) from None

    return callback


def _budget(text: str) -> CostBudget:
    from callsheet.telemetry.budget import parse_budget

    return parse_budget(text)


def _locale(text: str) -> str:
    from callsheet.describe.i18n import LOCALES, has_locale

    if not has_locale(text):
        raise BadAmount(f"{text!r}: expected one of {', '.join(LOCALES)}")
    return text


def _url(text: str) -> str:
    from callsheet.history.url import chosen_url

    chosen_url(text)  # raises `BadUrl`
    return text


def _hosts(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        if "://" in entry or re.search(r"[^:]:\d+$", entry):
            raise BadAmount(
                f"{entry!r}: expected a host such as localhost, an address, or a network such as "
                "10.0.0.0/8, without scheme and port"
            )
    return entries


def _servers(entries: tuple[str, ...]) -> tuple[McpServer, ...]:
    """Return the MCP servers of `--mcp`, each with a name of its own."""
    found: dict[str, McpServer] = {}
    for entry in entries:
        server = server_of(entry)
        if server.name in found:
            raise BadAmount(
                f"two servers are named {server.name!r}; give one another name: NAME={entry}"
            )
        found[server.name] = server
    return tuple(found.values())


def server_of(entry: str) -> McpServer:
    """Return the MCP server that `[NAME=]COMMAND` or `[NAME=]URL` configures."""
    from callsheet.tools.mcp import McpServer

    named = re.match(r"([A-Za-z][\w.-]*)=", entry)
    name, text = (named[1], entry[named.end() :]) if named else ("", entry)
    if "://" in text.partition(" ")[0]:
        from urllib.parse import urlsplit

        with suppress(ValueError):  # `McpServer` says what is wrong
            name = name or urlsplit(text).hostname or ""
        return McpServer(name or "server", url=text)
    try:
        program, *arguments = shlex.split(text)
    except ValueError as exc:
        why = "it is empty" if not text.strip() else str(exc).lower()
        raise BadAmount(f"{entry!r}: expected a command line or a URL, but {why}") from None
    return McpServer(name or command_name([program, *arguments]), command=program, args=arguments)


def command_name(command: Sequence[str]) -> str:
    """Return a name for what a command line starts: `npx -y @acme/server-x` is `server-x`."""
    plain = [PurePath(word) for word in command if re.fullmatch(r"[\w@./~:-]+", word)]
    names = [_own_name(path) for path in plain if path.stem not in _RUNNERS]
    return next(
        (name for name in names if name[:1].isalpha()), plain[0].name if plain else "server"
    )


def _own_name(path: PurePath) -> str:
    """Return the name of a program, script or package, without what says how it is run, or its version."""
    name = path.stem if path.suffix in SCRIPTS else path.name
    return name[:1] + name[1:].partition("@")[0]


age = _reading(parse_age)
size = _reading(parse_size)
moment = _reading(lambda text: parse_moment(text, time.time()))

locale_option = click.option(
    "--locale",
    metavar="xx",
    callback=_reading(_locale),
    help="The language of titles, such as de or pt_BR.",
)
budget_option = click.option(
    "--budget",
    metavar="AMOUNT",
    callback=_reading(_budget),
    help="The most that a session may cost, such as 2.00 (US dollars) or '5 EUR', counted from its start. "
    "The turn that exceeds it is stopped.",
)
tools_option = click.option(
    "--tools",
    "tools_file",
    metavar="FILE.py",
    type=click.Path(),
    help="A Python file with tools of your own.",
)
history_option = click.option(
    "--history",
    metavar="URL",
    callback=_reading(_url),
    help="Where calls are stored: sqlite:///PATH, a file, postgresql://…, or off. "
    "Default: CALLSHEET_HISTORY, or a settings file.",
)

hosts_option = click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="HOST",
    callback=_reading(_hosts),
    help="Let fetch reach a host, an address or a network that is not public. May be repeated.",
)
mcp_option = click.option(
    "--mcp",
    "servers",
    multiple=True,
    metavar="[NAME=]COMMAND|URL",
    callback=_reading(_servers),
    help="Add the tools of an MCP server, named mcp__NAME__TOOL: the command line that starts it, or "
    "its http(s) URL. May be repeated.",
)


def protocol_option(help: str) -> Callable[[_C], _C]:  # noqa: A002 - click's own name for it
    """Return the option that chooses the version of ACP."""
    return click.option(
        "--protocol", type=click.Choice(["1", "2"]), default="1", show_default=True, help=help
    )


def format_option(names: str, help: str, default: str | None = None) -> Callable[[_C], _C]:  # noqa: A002
    """Return the option that chooses the output format. `names` are separated by spaces."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(names.split()),
        default=default,
        show_default=default is not None,
        help=help,
    )


_FILTERS = (
    click.option(
        "--session",
        metavar="S",
        help="Only this session: its id, the id's beginning or end, or last.",
    ),
    click.option("--tool", metavar="T", help="Only calls of this tool."),
    click.option(
        "--status",
        type=click.Choice(STATUSES, case_sensitive=False),
        metavar="S",
        help="Only calls with this status, open calls, or those that ended for this reason.",
    ),
    click.option(
        "--since",
        callback=moment,
        metavar="WHEN",
        help="Only calls since then: 2h, 3d, 2026-11-01, or a time.",
    ),
    click.option("--until", callback=moment, metavar="WHEN", help="Only calls before then."),
    click.option(
        "--filter",
        "filter_",
        metavar="FILTER",
        help="As in the web inspector: 'tool:bash status:failed dur>2s path:src/ user:ada source:tap'.",
    ),
    click.option(
        "--search", metavar="TEXT", help='Only calls that contain these words, or "this phrase".'
    ),
)


def filters(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose calls of the history. The command gets a `query`, and the `session`.

    The session that is named must be looked up in the store first, so it is not in the query yet.
    """

    @wraps(command)
    def with_query(
        *args: Any,
        tool: str | None,
        status: str | None,
        since: float | None,
        until: float | None,
        search: str | None,
        filter_: str | None,
        **others: Any,
    ) -> None:
        from callsheet.history import Query
        from callsheet.history.filters import parse_filter

        if since is not None and until is not None and since >= until:
            raise click.UsageError("--since is not before --until, so no call can be meant")
        if search is not None and not any(sign.isalnum() for sign in search):
            raise click.UsageError(f"--search {search!r}: there is no word in it")
        terms, wrong = parse_filter(filter_ or "", time.time())
        if wrong:
            raise click.UsageError("--filter " + "\n--filter ".join(wrong))
        query = Query(
            tool=tool, status=status, since=since, until=until, search=search, terms=terms
        )
        command(*args, query=query, **others)

    return reduce(lambda made, option: option(made), reversed(_FILTERS), with_query)


def completing(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Return a function by which shells complete one of these names."""

    def complete(_ctx: click.Context, _param: click.Parameter, begin: str) -> list[str]:
        return sorted(name for name in names() if name.startswith(begin))

    return complete


def rule_options(names: Callable[[], Iterable[str]]) -> Callable[[_C], _C]:
    """Add the options that choose rules, or explain them. `names` are those of rules and categories."""
    option = partial(click.option, shell_complete=completing(names))
    several = partial(option, multiple=True, metavar="RULE,…")
    options = (
        several("--select", "chosen", help="Only these rules."),
        several("--ignore", "ignored", help="All but these rules."),
        option(
            "--explain", "explaining", metavar="RULE", help="Explain a rule, a category, or all."
        ),
    )
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


who_option = click.option(
    "--who",
    is_flag=True,
    default=None,
    help="Show who made them: user, host and agent, and in a pipe also the client and the source. By "
    "default, a wide terminal shows what differs, and JSON has everything.",
)


def limit_option(default: str, noun: str = "How many") -> Callable[[_C], _C]:
    """Return the option for the length of a list."""
    return click.option(
        "--limit",
        type=click.IntRange(min=0),
        metavar="N",
        help=f"{noun}; 0 means all.  [default: {default}]",
    )
