"""For all tests: a seed that is printed, a schema check of every message that is made, and no trace left.

Nothing is written to the user's own directories, and nothing around the tests changes them: neither
settings, variables and the language of who runs them, nor what stands above the directories they work in.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings

from callsheet.acp import terminals, v1, v2, views
from callsheet.acp.codec import as_dict
from tests.support import schemas, sizes

settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    max_examples=sizes.EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")

SEED = "seed"
TOLD = "told"
"""What a test tells with `record_property` under this name is shown at the end, also if a worker ran it."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "hypothesis_seed", None) is None:
        given: dict[str, str] = getattr(config, "workerinput", {})
        fresh = str(random.SystemRandom().randrange(2**32))
        config.option.hypothesis_seed = given.get(SEED, fresh)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let the workers have the seed that is printed at the end."""
    node.workerinput[SEED] = node.config.option.hypothesis_seed


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == TOLD:
                terminalreporter.write_line(str(value))
    terminalreporter.write_line(
        f"again with the same seed: --hypothesis-seed={config.option.hypothesis_seed}"
    )


_FOR_TESTS = re.compile(r"CALLSHEET_(FULL|EXAMPLES|SEED|LIVE|RACE_SECONDS|POSTGRES_BIN)")
_FOREIGN = re.compile(
    r"CALLSHEET_.*|XDG_.*|GIT_.*|LC_.*|LANGUAGE|BASH_ENV|ENV|CDPATH|SHELLOPTS|BASHOPTS|POSIXLY_CORRECT"
    r"|RIPGREP_CONFIG_PATH|COLUMNS|LINES|(NO|FORCE|CLICOLOR)_COLOR|CLICOLOR.*|PY_COLORS|TTY_.*"
    r"|PAGER|EDITOR|VISUAL|PG[A-Z]+|PYTHON(UTF8|IOENCODING|WARNINGS|OPTIMIZE|UNBUFFERED)"
)
"""Variables that change what programs do, and are not ours."""


@pytest.fixture(autouse=True, scope="session")
def nothing_around_the_tests_counts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let tests, and the processes that they start, see an empty home, plain settings and nothing above.

    No history is kept unless a test wants one.
    """
    home = tmp_path_factory.mktemp("home")
    own = {
        "HOME": home,
        "XDG_CACHE_HOME": home / "cache",
        "XDG_DATA_HOME": home / "data",
        "XDG_CONFIG_HOME": home / "config",
        "XDG_STATE_HOME": os.devnull,  # no tap can remember that it was the first, so none says it
        "CALLSHEET_HISTORY": "off",
        "GIT_CEILING_DIRECTORIES": os.path.realpath(tempfile.gettempdir()),
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "TZ": "UTC",
    }
    # Settings of a project are looked for upwards, and found here.
    (tmp_path_factory.getbasetemp() / "pyproject.toml").write_text("[tool.callsheet]\n")
    umask = os.umask(0o022)
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if _FOREIGN.fullmatch(name) and not _FOR_TESTS.fullmatch(name):
                patch.delenv(name)
        for name, value in own.items():
            patch.setenv(name, str(value))
        time.tzset()
        yield
    os.umask(umask)
    time.tzset()


@pytest.fixture(autouse=True, scope="session")
def processes_compile_the_code_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hundreds of processes are started here; where nothing may be kept, each would compile it all."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("PYTHONDONTWRITEBYTECODE"):
            patch.delenv("PYTHONDONTWRITEBYTECODE")
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("bytecode")))
        yield


@pytest.fixture(autouse=True, scope="session")
def every_message_is_valid() -> Iterator[None]:
    """Check whatever an encoder gives, in every test, against the official schema of its version."""
    with pytest.MonkeyPatch.context() as patch:
        for version, wire in ((1, v1), (2, v2)):
            for name in ("announce", "update"):
                patch.setattr(wire, name, _checked(getattr(wire, name), version))
            patch.setattr(wire, "encode_permission", _permission(wire.encode_permission, version))
        patch.setattr(v1, "moved", _checked(v1.moved, 1, _as_received))
        patch.setattr(v2, "encode_chunk", _checked(v2.encode_chunk, 2))
        patch.setattr(terminals, "encode_chunk", _checked(terminals.encode_chunk, 2))
        patch.setattr(terminals, "encode_update", _checked(terminals.encode_update, 2))
        for kind in (views.V1TerminalView, views.V1TextView):
            for name in ("call", "terminal"):
                patch.setattr(kind, name, _each_checked(getattr(kind, name)))
        yield


def _checked(
    encode: Callable[..., Any], version: int, read: Callable[[Any], Any] = as_dict
) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        update = encode(*args, **kwargs)
        if update is not None:
            schemas.check_update(version, read(update))
        return update

    return wrapper


def _as_received(update: Any) -> Any:
    """Return an update that has values which are encoded already."""
    return msgspec.json.decode(msgspec.json.encode(update))


def _each_checked(method: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        updates = method(*args, **kwargs)
        for update in updates:
            schemas.check_update(1, as_dict(update))
        return updates

    return wrapper


def _permission(encode: Callable[..., Any], version: int) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        params = encode(*args, **kwargs)
        schemas.check(version, "RequestPermissionRequest", params)
        return params

    return wrapper
