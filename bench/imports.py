"""How long `import` takes, each time in a fresh interpreter, measured inside it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

from .table import Claim, Figures, Subject
from .timing import ratio, summarise

RUNS = 11

_CODE = "from time import perf_counter as now; start = now(); {}; print(now() - start)"
_IMPORTS = {
    "msgspec": "import msgspec",
    "callsheet": "import callsheet",
    "callsheet, with ledger and wires": (
        "import callsheet, callsheet.runtime.clock, callsheet.acp.views, callsheet.acp.codec"
    ),
    "acp": "import acp",
}


def measure() -> Subject:
    """Time the imports in turns."""
    codes = {name: code for name, code in _IMPORTS.items() if name != "acp" or find_spec("acp")}
    for code in codes.values():
        _import(code)  # so that all bytecode is written, and the disk's cache is warm
    took: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(RUNS):
        for name, code in codes.items():
            took[name].append(_import(code))
    samples = {name: summarise(values) for name, values in took.items()}
    kept: Figures = {
        "milliseconds": {name: sample.rounded() for name, sample in samples.items()},
    }
    notes = [f"{RUNS} interpreters each, in turns; their own start is not counted"]
    claims: list[Claim] = []
    if "acp" in took:
        share = {name: ratio(took[name], took["acp"]) for name in took if name != "acp"}
        kept["share_of_acp"] = {name: round(value, 4) for name, value in share.items()}
        claims.append(Claim("import callsheet / import acp", share["callsheet"], 1 / 8))
    else:
        notes.append("the Python SDK is left out: agent-client-protocol is not installed")
    rows = [(name, *sample.cells()) for name, sample in samples.items()]
    return Subject("Import", ("module", "ms", "min–max", "spread"), rows, claims, notes, kept)


def _import(code: str) -> float:
    """Return the milliseconds of an import in a new interpreter, free of the user's settings."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", _CODE.format(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return float(done.stdout) * 1000
