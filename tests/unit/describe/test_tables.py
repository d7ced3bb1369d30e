"""Every row of the tables of describe does what its example says."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from callsheet.describe import Describer
from callsheet.describe.classify import guess, known_tool, plan_of
from callsheet.describe.shell.judge import is_harmless
from tests.support import ROOT

FOLDER = ROOT / "src" / "callsheet" / "describe"
TOOLS = tomllib.loads((FOLDER / "tools.toml").read_text(encoding="utf-8"))
ROLES = tomllib.loads((FOLDER / "arguments.toml").read_text(encoding="utf-8"))
SHAPES = tomllib.loads((FOLDER / "shapes.toml").read_text(encoding="utf-8"))
PROGRAMS = tomllib.loads((FOLDER / "shell" / "programs.toml").read_text(encoding="utf-8"))

describe = Describer("/w")


@pytest.mark.parametrize("row", TOOLS["tool"], ids=lambda row: row["shape"])
def test_a_well_known_tool_is_what_its_row_says(row: dict[str, Any]) -> None:
    name, raw_input, title = row["example"]
    assert name in row["names"].split()
    described = describe(name, json.loads(raw_input))
    assert (described.kind, described.title) == (row["kind"], title)
    for other in row["names"].split():
        found = known_tool(other)
        assert found is not None
        assert (found.kind, found.shape) == (row["kind"], known_tool(name).shape)  # type: ignore[union-attr]


def test_no_name_stands_in_two_rows() -> None:
    names = [name for row in TOOLS["tool"] for name in set(row["names"].lower().split())]
    assert len(names) == len(set(names))
    words = [word for row in TOOLS["word"] for word in row["words"].split()]
    assert len(words) == len(set(words))


def test_every_shape_has_a_title_that_needs_no_arguments() -> None:
    for name, row in SHAPES.items():
        if "titles" in row:
            assert "{" not in row["titles"][-1], name
    named = {row["shape"] for row in TOOLS["tool"] + TOOLS["word"]}
    assert named <= SHAPES.keys()


@pytest.mark.parametrize("row", TOOLS["word"], ids=lambda row: row["example"][0])
def test_a_word_is_what_its_row_says(row: dict[str, Any]) -> None:
    name, raw_input, title = row["example"]
    assert plan_of(name).kind == row["kind"]
    assert describe(name, json.loads(raw_input)).title == title
    for word in row["words"].split():
        assert guess(word, prefixes=()) == (row["kind"], row["shape"]), word


@pytest.mark.parametrize("table", ["nouns", "wrappers"])
def test_the_other_tables_have_examples_that_hold(table: str) -> None:
    name, raw_input, title = TOOLS[table]["example"]
    assert describe(name, json.loads(raw_input)).title == title


@pytest.mark.parametrize("role", ROLES)
def test_an_argument_is_found_under_each_of_its_names(role: str) -> None:
    row = ROLES[role]
    tool, given, value, title, *locations = row["example"]
    for name in set(row["names"].split()) - set(row.get("except", "").split()):
        described = describe(tool, json.loads(given) | {name: json.loads(value)})
        assert described.title == title, name
        if locations:
            assert [place.path for place in described.locations] == locations, name


@pytest.mark.parametrize("row", PROGRAMS["program"], ids=lambda row: row["commands"][0])
def test_a_program_does_no_harm_unless_it_runs_a_projects_code(row: dict[str, Any]) -> None:
    assert row["examples"]
    for command in row["examples"]:
        assert is_harmless(command) is not row.get("runs", False), command
