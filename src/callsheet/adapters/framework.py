"""What the adapters need of a framework: its version, its classes, and that nothing is raised into it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module, metadata
from inspect import iscoroutinefunction
from types import new_class
from typing import Any, TypeAlias, TypeVar, cast

from callsheet.report.errors import CallsheetError
from callsheet.report.json import EMPTY, JsonObject
from callsheet.runtime.session import RuntimeSession

Callback = TypeVar("Callback", bound=Callable[..., Any])
Versions: TypeAlias = tuple[str, str, str]
"""A framework's package in the registry, the first version that works, and the first that was not tried."""


class UnknownFramework(CallsheetError):
    """A framework is not installed, is too old, or is none that there is an adapter for."""


def require(package: str, lowest: str, below: str) -> None:
    """Check the version of a framework. One that is newer than those tried is a warning.

    Args:
        package: The package's name in the registry.
        lowest: The first version that works.
        below: The first version that was not tried.

    Raises:
        UnknownFramework: It is not installed, or older than `lowest`.
    """
    works = _ranged(package, lowest, below)
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise UnknownFramework(
            f"{package} is not installed; install it: pip install '{works}'"
        ) from None
    if _numbers(found) < _numbers(lowest):
        raise UnknownFramework(f"{package} {found} is too old; these versions work: {works}")
    if _numbers(found) >= _numbers(below):
        message = f"{package} {found} was not tried; reports may lack something. Tried: {works}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def _ranged(package: str, lowest: str, below: str) -> str:
    return f"{package}>={lowest},<{below}"


def _numbers(version: str) -> list[int]:
    found = re.match(r"[\d.]*\d", version)
    return [int(part) for part in found[0].split(".")] if found else [0]


def name_framework(session: RuntimeSession, package: str, client: JsonObject = EMPTY) -> None:
    """Let the history say who makes a session's calls, where nobody has said it: a framework, and for whom.

    Args:
        session: The session; those of its sinks that are logs of a history get the names.
        package: The framework's package in the registry.
        client: What the client calls itself: `name` and `version`.
    """
    if not any(getattr(sink, "takes_records", False) for sink in session.sinks):
        return
    from callsheet.history.rows import Origin, name_text
    from callsheet.history.sink import SessionLog

    origin = Origin(
        agent=package,
        agent_version=metadata.version(package),
        client=name_text(str(client.get("name") or "")),
        client_version=name_text(str(client.get("version") or "")),
        source="adapter",
    )
    for sink in session.sinks:
        if isinstance(sink, SessionLog):
            sink.describe(session.cwd, {}, origin)


def imported(versions: Versions, module: str, name: str) -> Any:
    """Return what a framework's module has under a name. `versions` are the arguments of `require`.

    Raises:
        UnknownFramework: It has none.
    """
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as exc:
        message = f"{module}.{name} can't be used: {exc}; these versions work: {_ranged(*versions)}"
        raise UnknownFramework(message) from exc


@cache
def derived(mixin: type[Any], versions: Versions, module: str, base: str) -> type[Any]:
    """Return a class that is ours and the framework's, made when it is used: it imports the framework.

    Raises:
        UnknownFramework: The framework has no such class.
    """
    return new_class(mixin.__name__, (mixin, imported(versions, module, base)))


def harmless(callback: Callback) -> Callback:
    """Make a method that a framework calls count its errors, instead of raising them into the user's run.

    A version that is newer than those tried may give it other objects. The method's object has a `reporter`,
    which is None while nobody is served.
    """

    def count(self: Any, exc: Exception) -> None:
        if self.reporter is not None:
            self.reporter.session.faults.degraded(exc)

    @wraps(callback)
    def direct(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return callback(self, *args, **kwargs)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the run is not to blame
            return count(self, exc)

    @wraps(callback)
    async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await callback(self, *args, **kwargs)
        except Exception as exc:  # noqa: BLE001 - as above
            return count(self, exc)

    return cast("Callback", awaited if iscoroutinefunction(callback) else direct)
