"""A fleet's servers: NATS with JetStream, between many histories and the collectors that write one store.

A history publishes its rows to the stream `CALLSHEET`, on `callsheet.TEAM.HOST.SESSION`. A message has some
rows of one session: as many as waited. While its calls are open, a writer also says that it is there, on
`callsheet_alive.TEAM.WRITER`. Their stream forgets that after `GONE` seconds, by the servers' clock, so that
nobody has to trust another machine's. What a collector can't use is put aside, in a third stream, and tried
again by later ones.

Streams are made when they are missing. One that was made otherwise, by hand, is used if it loses nothing.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib import import_module
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from callsheet.history.rows import LATEST, CallRow, MessageRow, SessionRow, TurnRow
from callsheet.history.store_errors import BadUrl, StoreUnavailable
from callsheet.history.url import is_server, without_password
from callsheet.report.status import ToolCallStatus

_T = TypeVar("_T")

ROWS, ASIDE, ALIVE = "CALLSHEET", "CALLSHEET_ASIDE", "CALLSHEET_ALIVE"
"""The streams. Their subjects begin with their names, in small letters."""

VERSION = 1
"""The version of `Envelope`. It changes if collectors of before could not understand a message."""

CONNECT = 4.0
"""Seconds that connecting may take."""

PATIENCE = 6.0
"""Seconds for the acknowledgement of what was published: a cluster elects another leader meanwhile."""

AGAIN = 0.25
PING = 20
"""Seconds after which a server must show that it is there; another one is taken after the second time."""

BEAT = 30.0
"""Seconds after which a writer of open calls says again that it is there."""

GONE = 300.0
"""Seconds after which a writer is gone of which nothing was heard."""

KEPT, WINDOW = 7 * 86400.0, 600.0
"""Seconds that streams keep messages, and in which one that comes again is known by its id."""

LONGEST = 48
"""Characters of a subject's token, before a digest takes the place of the rest."""

_STATUSES = frozenset(map(str, ToolCallStatus))
_ODD = re.compile(rb"[^A-Za-z0-9_-]")
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\s:\[\]/@,?#]+)(?::(\d{1,5}))?")
_SCHEMES = ("nats", "tls")
_EXPECTED = "expected nats://HOST:4222/TEAM, or nats://TOKEN@HOST:4222,HOST2:4222/TEAM"


class ServersUnavailable(StoreUnavailable):
    """A fleet's servers can't be used now. Later they may."""


class Envelope(Struct, array_like=True):
    """The body of a message: rows of one session, and the writer that its open calls belong to."""

    version: int
    writer: str
    session: SessionRow
    rows: list[CallRow | MessageRow | TurnRow]


class _Versioned(Struct, array_like=True):
    version: int


encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Envelope).decode
_decode_version = msgspec.msgpack.Decoder(_Versioned).decode


def decode(body: bytes) -> Envelope:
    """Return what a message has. Raise a `ValueError` if it makes no sense, or is of another version."""
    if (found := _decode_version(body).version) != VERSION:
        raise ValueError(f"it is of version {found}, and this callsheet knows version {VERSION}")
    made = _decode(body)
    times = [made.session.created_at, made.session.updated_at]
    for row in made.rows:
        times.append(row.at)
        if row.session_id != made.session.session_id:
            raise ValueError("a row is of another session")
        if isinstance(row, CallRow):
            times.append(row.updated_at)
            if row.status not in _STATUSES:
                raise ValueError(f"there is no status {row.status}")
    if not all(0 <= at < LATEST for at in times):
        raise ValueError("there is no such time")
    return made


class Message(NamedTuple):
    """What is published: the stream, the rest of its subject, the body, and further headers."""

    stream: str
    rest: str
    body: bytes
    headers: Mapping[str, str] = {}


def token(text: str) -> str:
    """Return a text as one token of a subject."""
    safe = _ODD.sub(lambda sign: b"%%%02X" % sign[0][0], text.encode(errors="replace")).decode()
    if len(safe) > LONGEST:
        return safe[:LONGEST] + "~" + blake2b(safe.encode(), digest_size=6).hexdigest()
    return safe or "-"


def shared_name(url: str, team: str) -> str:
    """Return a name that the collectors of one store have, and no others."""
    place = url.rpartition("@")[2] if is_server(url) else f"{socket.gethostname()} {url}"
    return blake2b(f"{place} {team}".encode(), digest_size=8).hexdigest()


class Address(Struct, frozen=True):
    """Where a fleet's servers are, how they know us, and the team; an empty team means all of them."""

    servers: list[str]
    team: str
    user: str | None = None
    password: str | None = None
    token: str | None = None


def address_of(url: str) -> Address:
    """Return what a URL says. Raise `BadUrl` if that makes no sense."""

    def wrong(why: str) -> BadUrl:
        return BadUrl(f"history {without_password(url)}: {why}; {_EXPECTED}")

    scheme, _, rest = url.partition("://")
    who, sign, place = rest.rpartition("@")
    hosts, _, team = place.partition("/")
    for host in hosts.split(","):
        found = _HOST.fullmatch(host)
        if scheme not in _SCHEMES or found is None or int(found[1] or 1) not in range(1, 65536):
            raise wrong(f"{host!r} is no server" if host else "it names no server")
    if re.search(r"[/?#]", team.rstrip("/")):
        raise wrong(f"{team!r} is no team's name")
    servers = [f"{scheme}://{host}" for host in hosts.split(",")]
    name, colon, password = who.partition(":")
    found = Address(servers, unquote(team.rstrip("/")))
    if colon:
        return msgspec.structs.replace(found, user=unquote(name), password=unquote(password))
    return msgspec.structs.replace(found, token=unquote(who)) if sign and who else found


class Connection:
    """A connection to a fleet's servers, for the running event loop. It is made again when it was lost.

    Args:
        url: Where they are.
        notify: Called when it is lost, with why, and with None when it is back.
    """

    def __init__(self, url: str, notify: Callable[[str | None], None] = lambda _: None) -> None:
        self.address: Address = address_of(url)
        self.url: str = without_password(url)
        self.since: float = 0.0
        """Since when it has lasted, by `time.monotonic`."""
        self._notify: Callable[[str | None], None] = notify
        self._problem: str = ""
        self._is_heard: bool = False
        """Whether the problem is in the words of a server."""
        self._denied: asyncio.Event = asyncio.Event()
        # What waits for its acknowledgement.
        self._sent: list[asyncio.Future[Any]] = []
        self.nc: Any = None
        self.js: Any = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, or one is being made again."""
        return self.nc is not None and not self.nc.is_closed

    @property
    def most(self) -> int:
        """The bytes that a message may have."""
        return min(self.nc.max_payload, 4 << 20) - 1024  # headers count, too

    # Connecting

    async def open(self) -> None:
        """Connect, and make the streams that are missing."""
        if self.is_open:
            return
        try:
            driver = import_module("nats")
        except ImportError:
            raise BadUrl(
                f"a history at {self.url} needs nats-py: pip install 'callsheet[nats]'"
            ) from None
        self.nc, address = driver.NATS(), self.address
        self._problem, self._is_heard = "", False
        connecting = asyncio.ensure_future(
            self.nc.connect(
                address.servers,
                user=address.user,
                password=address.password,
                token=address.token,
                name="callsheet",
                connect_timeout=CONNECT / 2,
                reconnect_time_wait=AGAIN,
                max_reconnect_attempts=-1,
                ping_interval=PING,
                pending_size=0,
                error_cb=self._erred,
                disconnected_cb=self._lost,
                reconnected_cb=self._back,
            )
        )
        try:
            await asyncio.wait({connecting}, timeout=CONNECT)
        finally:
            is_late = not connecting.done()
            while (
                not connecting.done()
            ):  # before Python 3.12, `wait_for` may miss that it is cancelled
                connecting.cancel()
                await asyncio.wait({connecting}, timeout=AGAIN)
        if is_late:
            await self.close()
            raise self._unavailable(f"can't be reached ({self._problem or 'no answer'})")
        if (exc := connecting.exception()) is not None:
            await self.close()
            raise self._unavailable(f"can't be used ({self._plain(exc)})")
        self.since, self.js = time.monotonic(), self.nc.jetstream(timeout=CONNECT / 2)
        try:
            await self.ensure_streams()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close it."""
        nc, self.nc, self.since = self.nc, None, 0.0
        if nc is not None:
            with suppress(Exception):
                async with asyncio.timeout(CONNECT):
                    await nc.close()

    async def _erred(self, exc: Exception) -> None:
        # A server that refuses us closes the connection. That this was reset says less than its own words.
        is_heard = not isinstance(exc, (OSError, import_module("nats.errors").StaleConnectionError))
        if is_heard or not self._is_heard:
            self._problem, self._is_heard = self._plain(exc), is_heard
        if "permissions violation" in str(exc).lower():
            self._denied.set()

    async def _lost(self) -> None:
        if self.since:
            self.since = 0.0
            self._notify(f"The connection to {self.url} was lost.")

    async def _back(self) -> None:
        self.since, self._problem, self._is_heard = time.monotonic(), "", False
        for future in self._sent:  # what waits is sent again
            future.cancel()
        self._notify(None)

    def _plain(self, exc: BaseException) -> str:
        """Return an error's message, without what must not be shown."""
        described: str = getattr(exc, "description", None) or str(exc)
        text = (described or type(exc).__name__).removeprefix("nats: ").strip("'\". ")[:300]
        for secret in (self.address.token, self.address.password):
            text = text.replace(secret, "…") if secret else text
        return text

    def _unavailable(self, why: str) -> ServersUnavailable:
        return ServersUnavailable(f"{self.url} {why}.")

    # The streams

    async def ensure_streams(self) -> None:
        """Make the streams that are missing. Raise `ServersUnavailable` if one can't be used.

        Who may only publish can't look: then those who may have made them.
        """
        for name in (ROWS, ASIDE, ALIVE):
            found = await self.request(self.js.stream_info(name))
            if found is False:
                found = await self._make(name)
            if name != ALIVE and found is not None and (wrong := _fault(found.config)):
                raise self._unavailable(
                    f"has a stream {name} that would lose calls: {wrong}; change it, or remove it"
                )

    async def _make(self, name: str) -> Any:
        api = import_module("nats.js.api")
        config = api.StreamConfig(
            name=name,
            description="callsheet",
            subjects=[f"{name.lower()}.>"],
            retention=api.RetentionPolicy.LIMITS,
            storage=api.StorageType.FILE,
            compression=api.StoreCompression.S2,
            max_age=GONE if name == ALIVE else KEPT,
            max_msgs_per_subject=1 if name == ALIVE else -1,
            duplicate_window=GONE if name == ALIVE else WINDOW,
            num_replicas=3,
        )
        # A cluster of three may have just two for a moment: the third replica is not given up for that.
        is_cluster = len(self.nc.servers) >= 3
        try:
            return await self.request(self.js.add_stream(config))
        except ServersUnavailable:
            if is_cluster:
                raise
        return await self.request(self.js.add_stream(config.evolve(num_replicas=1)))

    async def request(self, request: Awaitable[Any]) -> Any:
        """Return the answer to a request; False if there is no such thing, None if it may not be asked."""
        errors = import_module("nats.js.errors")
        self._denied.clear()  # by now it may be allowed
        asking = asyncio.ensure_future(request)
        denied = asyncio.ensure_future(self._denied.wait())
        await asyncio.wait({asking, denied}, return_when=asyncio.FIRST_COMPLETED)
        denied.cancel()
        if not asking.done():
            asking.cancel()
            return None
        try:
            return asking.result()
        except errors.NotFoundError:
            return False
        except errors.APIError as exc:
            if exc.err_code in (10039, 10076, None):
                raise self._unavailable(
                    "has no JetStream; start its server with --jetstream"
                ) from None
            raise self._unavailable(f"refuses: {self._plain(exc)}") from None
        except TimeoutError:
            raise self._unavailable("does not answer") from None
        except Exception as exc:  # noqa: BLE001
            raise self._unavailable(f"can't be used ({self._plain(exc)})") from None

    async def ask(self, request: Awaitable[_T]) -> _T:
        """Return the answer to a request to JetStream. Raise `ServersUnavailable` if there is none."""
        found = await self.request(request)
        if found is None or found is False:
            raise self._unavailable("does not let us in" if found is None else "has lost a stream")
        return found

    # Publishing

    async def publish(self, messages: Sequence[Message]) -> None:
        """Publish messages, and return when the servers have stored all of them."""
        errors = import_module("nats.js.errors")
        until, waiting = time.monotonic() + PATIENCE, list(messages)
        while waiting:
            is_here, left = self.nc.is_connected, until - time.monotonic()
            if left <= 0:
                why = "does not acknowledge what is published" if is_here else "is away"
                raise self._unavailable(f"{why}{f' ({self._problem})' if self._problem else ''}")
            if not is_here:
                await asyncio.sleep(min(AGAIN, left))
                continue
            waiting, refusal = await self._publish_once(waiting, left)
            if isinstance(refusal, errors.NoStreamResponseError):
                await asyncio.sleep(AGAIN)  # a leader is elected, or the stream was removed
                await self.ensure_streams()
            elif refusal is not None:
                raise self._unavailable(f"refuses what is published: {self._plain(refusal)}")

    async def _publish_once(
        self, messages: list[Message], seconds: float
    ) -> tuple[list[Message], BaseException | None]:
        """Publish messages. Return those that were not acknowledged, and why one was refused."""
        self._sent = []
        try:
            for one in messages:
                self._sent.append(await self._send(one))
            await asyncio.wait(self._sent, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for future in self._sent:
                future.cancel()  # else the driver waits for it, and takes no more after some thousands
        ends = [
            (one.cancelled(), None if one.cancelled() else one.exception()) for one in self._sent
        ]
        left = [one for one, end in zip(messages, ends, strict=True) if any(end)]
        return left, next((why for _, why in ends if why is not None), None)

    async def _send(self, message: Message) -> asyncio.Future[Any]:
        stream, rest, body, more = message
        known = blake2b(body, digest_size=16, person=b"callsheet").hexdigest()
        headers = {"Nats-Msg-Id": known, **more}
        subject = f"{stream.lower()}.{rest}"
        try:
            return await self.js.publish_async(subject, body, stream=stream, headers=headers)
        except Exception as exc:  # noqa: BLE001
            raise self._unavailable(f"takes nothing ({self._plain(exc)})") from None


def _fault(config: Any) -> str:
    """Return what is wrong with the configuration of a stream."""
    subjects = f"{config.name.lower()}.>"
    size = config.max_msg_size or -1
    faults = {
        f"its subjects are not {subjects}": subjects not in (config.subjects or ()),
        f"its retention is {config.retention}, not limits": config.retention
        not in (None, "limits"),
        "it acknowledges nothing (no_ack)": config.no_ack,
        "it keeps only some messages of a session (max_msgs_per_subject)": config.max_msgs_per_subject
        > 0,
        "its max_msg_size is below 1 MB": 0 < size < 1 << 20,
    }
    return next((why for why, is_wrong in faults.items() if is_wrong), "")
