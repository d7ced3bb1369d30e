from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver

Environment = Callable[..., dict[str, str]]


@pytest.fixture
def receiver() -> Generator[OtlpReceiver]:
    with otlp_receiver() as got:
        yield got


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """Return the environment of a child that sends its spans to an endpoint."""

    def made(endpoint: str, **more: Any) -> dict[str, str]:
        others = {key: one for key, one in os.environ.items() if not key.startswith("OTEL_")}
        return {
            **others,
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_DATA_HOME": str(tmp_path / "data"),
            "CALLSHEET_HISTORY": str(tmp_path / "history.db"),
            "LANG": "C.UTF-8",
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            **more,
        }

    return made
