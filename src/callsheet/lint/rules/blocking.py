"""`async/blocking-call`: an async tool that stops the event loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from callsheet.lint.finding import Hit, Rule
from callsheet.lint.module import Module
from callsheet.lint.names import Names

_THREAD = "await asyncio.to_thread(…)"
_PROCESS = "await asyncio.create_subprocess_exec(…)"
_CLIENT = "httpx.AsyncClient"
_VERBS = ("get", "post", "put", "patch", "delete", "head", "options", "request")


def _all(module: str, names: str, instead: str) -> dict[str, str]:
    return {f"{module}.{name}": instead for name in names.split()}


INSTEAD: dict[str, str] = {
    "time.sleep": "await asyncio.sleep(…)",
    "builtins.input": "ask through the session: stdin is not the user's",
    "builtins.open": _THREAD,
    "io.open": _THREAD,
    "urllib.request.urlopen": _CLIENT,
    "urllib.request.urlretrieve": _CLIENT,
    "urllib3.request": _CLIENT,
    "sqlite3.connect": f"aiosqlite, or {_THREAD}",
    "select.select": "asyncio's streams",
    **_all("requests", " ".join(_VERBS), _CLIENT),
    **_all("httpx", " ".join((*_VERBS, "stream")), _CLIENT),
    **_all("os", "system popen wait waitpid", _PROCESS),
    **_all("subprocess", "run call check_call check_output getoutput getstatusoutput", _PROCESS),
    **_all(
        "shutil", "copy copy2 copyfile copytree move rmtree make_archive unpack_archive", _THREAD
    ),
    **_all("socket", "create_connection getaddrinfo gethostbyname", "asyncio.open_connection(…)"),
    **_all("psycopg2", "connect", f"asyncpg, or {_THREAD}"),
    **_all("psycopg", "connect", "psycopg.AsyncConnection"),
    **_all("pymysql", "connect", f"aiomysql, or {_THREAD}"),
    **_all("smtplib", "SMTP SMTP_SSL", _THREAD),
    **_all("ftplib", "FTP FTP_TLS", _THREAD),
}
"""Functions that wait, by their dotted names, and what to use instead."""

METHODS: dict[str, tuple[frozenset[str], str]] = {
    "pathlib.Path": (
        frozenset({"read_text", "read_bytes", "write_text", "write_bytes", "open"}),
        _THREAD,
    ),
    "requests.Session": (frozenset(_VERBS), _CLIENT),
    "httpx.Client": (frozenset((*_VERBS, "stream")), _CLIENT),
    "urllib3.PoolManager": (frozenset({"request", "urlopen"}), _CLIENT),
    "http.client.HTTPConnection": (frozenset({"request", "getresponse"}), _CLIENT),
    "http.client.HTTPSConnection": (frozenset({"request", "getresponse"}), _CLIENT),
    "subprocess.Popen": (frozenset({"wait", "communicate"}), _PROCESS),
}
"""Methods that wait, by the class whose value they are called on."""

_OF_PATHS = METHODS["pathlib.Path"][0] - {"open"}
_AWAITED_PATHS = frozenset({"anyio", "trio", "aiopath", "asyncpath", "upath"})


def check(module: Module) -> Iterator[Hit]:
    """Find calls in async tools that wait without `await`."""
    has_awaited_paths = _imports(module.tree) & _AWAITED_PATHS
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and _runs_on_the_loop(node, module):
            instead = _instead(node, module.names)
            if instead is None and not has_awaited_paths and _is_of_a_path(node):
                instead = _THREAD
            if instead is not None:
                shown = _shown(node.func)
                message = f"{shown} blocks the event loop in async tool {_tool_name(node, module)}"
                yield Hit(node, message, f"use {instead}")


def _runs_on_the_loop(node: ast.Call, module: Module) -> bool:
    """Whether a call is made in an async tool itself, and not awaited."""
    function = module.function_of(node)
    if not isinstance(function, ast.AsyncFunctionDef):
        return False  # a plain function or lambda inside of a tool is likely to go to a thread
    awaited = isinstance(module.names.parents.get(node), ast.Await)
    tool = module.tool_of(node)
    return not awaited and tool is not None and tool.is_async


def _instead(node: ast.Call, names: Names) -> str | None:
    dotted = names.dotted(node.func)
    if dotted in INSTEAD:
        return INSTEAD[dotted]
    if not isinstance(node.func, ast.Attribute):
        return None
    methods, instead = METHODS.get(names.type_of(node.func.value) or "", (frozenset[str](), ""))
    return instead if node.func.attr in methods else None


def _is_of_a_path(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in _OF_PATHS


def _imports(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _tool_name(node: ast.AST, module: Module) -> str:
    tool = module.tool_of(node)
    return tool.name if tool is not None else ""


def _shown(func: ast.expr) -> str:
    text = ast.unparse(func)
    if len(text) > 40 and isinstance(func, ast.Attribute):
        text = f"….{func.attr}"
    return f"{text}(…)"


RULE = Rule(
    id="async/blocking-call",
    title="A blocking call in an async tool",
    why="While it waits, nothing else runs: no other tool, no progress, no cancelling, no timeout."
    " The editor shows a spinner that doesn't turn.",
    fix="Await the async counterpart, move the call to a thread with asyncio.to_thread, or make the"
    " tool a plain def: the executor runs those in threads.",
    bad='''\
import time

from callsheet import Call, ToolResult, tool


@tool
async def wait(call: Call, seconds: float) -> ToolResult:
    """Wait."""
    time.sleep(seconds)
    return call.success("Waited.")
''',
    good='''\
import asyncio

from callsheet import Call, ToolResult, tool


@tool
async def wait(call: Call, seconds: float) -> ToolResult:
    """Wait."""
    await asyncio.sleep(seconds)
    return call.success("Waited.")
''',
    check=check,
)
