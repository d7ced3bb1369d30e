"""Draws docs/images/before-after.svg: `callsheet demo`, really run, on a terminal of 118 columns.

python scripts/draw_demo.py
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from callsheet.cli.demo.before_after import BeforeAfter

WIDTH = 118
OUT = Path(__file__).parents[1] / "docs" / "images" / "before-after.svg"


def main() -> None:
    """Run the demo, and draw what it shows in the end."""
    os.environ["LC_ALL"] = "C"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    console = Console(
        record=True,
        width=WIDTH,
        height=40,
        file=io.StringIO(),
        force_terminal=True,
        highlight=False,
    )
    with tempfile.TemporaryDirectory(prefix="callsheet-demo-") as directory:
        demo = BeforeAfter(Path(directory).resolve(), console)
        console.record = False  # not what moves
        asyncio.run(_last_screen(demo, console))
    svg = console.export_svg(title="callsheet demo", unique_id="demo")
    # The fonts of the reader's own machine: a picture must not fetch anything.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(svg.replace("Fira Code, ", "") + "\n", encoding="utf-8")


async def _last_screen(demo: BeforeAfter, console: Console) -> None:
    await asyncio.gather(*(run.play() for run in demo.runs))
    console.record = True
    demo.show_intro()
    demo.show_result()


if __name__ == "__main__":
    main()
