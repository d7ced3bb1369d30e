"""`callsheet ui`: the web inspector on the history, on this machine."""

from __future__ import annotations

import secrets
import signal
import stat
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from html import escape
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import quote

import click

from callsheet.cli.history.lookup import Trouble, chosen
from callsheet.cli.options import history_option
from callsheet.history.url import file_of, is_fleet, is_server

LEAST_TOKEN = 32
"""Characters that a token in a file must have."""


@click.command("ui")
@history_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port to listen on.  [default: any that is free]",
)
@click.option(
    "--token-file",
    metavar="FILE",
    help=f"A file with the token, of at least {LEAST_TOKEN} characters, that only you can read. "
    "Default: a new token with each start.",
)
@click.option("--no-open", is_flag=True, help="Don't open the browser.")
def command(
    history: str | None, host: str, port: int, token_file: str | None, no_open: bool
) -> int:
    """Look at all calls in a web browser, live: list, filter, details, timeline.

    It serves this machine only, and only who knows the token in the address. Ctrl-C ends it.
    """
    url, _ = chosen(history)
    if _is_short(host):
        raise click.UsageError(
            f"--host {host!r}: expected a whole address, as 127.0.0.1, or a name"
        )
    try:
        from callsheet.ui.security import is_loopback
        from callsheet.ui.server import bound, serve
    except ModuleNotFoundError as exc:
        package = (exc.name or "a package").partition(".")[0]
        raise Trouble(
            f"the web inspector needs {package}: pip install 'callsheet[ui]'; in a clone: pip install '.[ui]'"
        ) from None
    from callsheet.ui.live import LiveHistory

    if token_file is None and not is_loopback(host):
        raise click.UsageError(
            f"--host {host}: others can reach that address, so it needs --token-file FILE: a token of at "
            f"least {LEAST_TOKEN} characters, in a file that only you can read"
        )
    token = secrets.token_urlsafe(32) if token_file is None else _token(token_file)
    try:
        listening = bound(host, port)
    except OSError as exc:
        hint = "; name another --port, or none" if port else ""
        raise Trouble(f"{host}:{port} can't be used: {exc.strerror or exc}{hint}") from None
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}/#token={quote(token, safe='')}"
    click.echo(address)
    sys.stdout.flush()
    click.echo("callsheet: Ctrl-C ends it", err=True)
    if not is_server(url) and not (file := file_of(url)).exists():
        click.echo(f"callsheet: {file} does not exist yet: waiting for it", err=True)
    if not is_loopback(host):
        click.echo("callsheet: who knows this address can read every stored call", err=True)
    with ExitStack() as until_the_end, suppress(KeyboardInterrupt):
        for number in (signal.SIGTERM, signal.SIGHUP):  # what is temporary is removed in any case
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        store = url
        if is_fleet(url):
            from callsheet.cli.collect import collected

            store = until_the_end.enter_context(collected(url))
        if not no_open and sys.stdout.isatty():
            until_the_end.enter_context(_opened(address))
        serve(LiveHistory(store, url), listening, host, token, _saved_filters())
    return 0


def _saved_filters() -> Path:
    from platformdirs import user_data_path

    return user_data_path("callsheet", appauthor=False) / "filters.json"


def _is_short(host: str) -> bool:
    """Whether the system takes a text for an address that does not stand there: `0` is every address."""
    import socket
    from ipaddress import ip_address

    with suppress(ValueError):
        ip_address(host)
        return False
    with suppress(OSError):
        socket.inet_aton(host)
        return True
    return not host.strip()


def _token(file: str) -> str:
    from callsheet.ui.saved_filters import read_regular

    try:
        data, mode = read_regular(file, 10_000)
        token = data.decode().strip()
    except (OSError, ValueError) as exc:
        raise click.UsageError(f"--token-file {file}: {getattr(exc, 'strerror', exc)}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise click.UsageError(f"--token-file {file}: others can read it; chmod 600 {file}")
    if len(token) < LEAST_TOKEN or not (
        token.isascii() and token.isprintable() and " " not in token
    ):
        raise click.UsageError(
            f"--token-file {file}: expected one word of at least {LEAST_TOKEN} ASCII characters"
        )
    return token


@contextmanager
def _opened(address: str) -> Generator[None]:
    """Open the browser. Everybody can read its command line, so that names a file, which has the address."""
    import webbrowser

    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">'
    with NamedTemporaryFile("w", prefix="callsheet-", suffix=".html") as file:  # its mode is 0600
        file.write(page)
        file.flush()
        with suppress(Exception):  # the address is printed, whatever a browser does
            webbrowser.open(Path(file.name).as_uri())
        yield
