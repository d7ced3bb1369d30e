"""Tables as rows of text. A table that only arranges a page is taken apart into paragraphs."""

from __future__ import annotations

from .layout import Layout


class Table:
    """One table while it is read."""

    def __init__(self) -> None:
        self._rows: list[list[str]] = []
        self._row: list[str] = []
        self._has_head: bool = False
        self._is_flat: bool = False
        self.is_between_cells: bool = True

    def row(self, layout: Layout) -> None:
        """Begin or end a row."""
        self.end_cell(layout)
        if self._row:
            self._rows.append(self._row)
            self._row = []
        if self._is_flat:
            layout.block()

    def cell(self, layout: Layout, *, is_head: bool) -> None:
        """Begin a cell."""
        self.end_cell(layout)
        if not self._is_flat and self.is_between_cells:
            layout.block()  # whatever stands outside of all cells
        self._has_head = self._has_head or (is_head and not self._rows)
        self.is_between_cells = False

    def end_cell(self, layout: Layout) -> None:
        """End a cell, if one is open."""
        if self.is_between_cells:
            return
        self.is_between_cells = True
        if self._is_flat:
            layout.add(" ")
        else:
            self._row.append(layout.take())

    def flatten(self, layout: Layout) -> None:
        """Be paragraphs from now on: another table stands inside."""
        if self._is_flat:
            return
        self._is_flat = True
        here = layout.take()
        for row in [*self._rows, self._row]:
            layout.add(" ".join(filter(None, row)))
            layout.block()
        layout.add(here)
        self._rows, self._row = [], []

    def end(self, layout: Layout) -> None:
        """End the table."""
        self.row(layout)
        if self._is_flat:
            layout.block()
            return
        rows = [row for row in self._rows if any(row)]
        if len(rows) == 1 or all(len(row) == 1 for row in rows):
            for row in rows:
                layout.add("  ".join(filter(None, row)))
                layout.block()
            return
        layout.rows(self._lines(rows))

    def _lines(self, rows: list[list[str]]) -> list[str]:
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        if self._has_head and lines:
            lines.insert(1, "|" + " --- |" * len(rows[0]))
        return lines
