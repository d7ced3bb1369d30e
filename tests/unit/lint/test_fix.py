"""`callsheet lint --fix`: results built by hand become the helpers, and nothing else changes."""

from __future__ import annotations

import ast
import os
import stat
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import ToolResult
from callsheet.lint import fix_text, lint_paths, lint_text

HEAD = "import json\nfrom callsheet import Call, ToolResult, tool\n\n\n"
TOOL = '@tool\ndef t(call: Call, x: str){}:\n    """Do."""\n'


def fix(code: str, head: str = HEAD) -> str:
    """Fix a text; hold that it parses, that fixing twice is fixing once, and that the head stays."""
    fixed = fix_text(head + code)
    ast.parse(fixed.text)
    again = fix_text(fixed.text)
    assert (again.text, again.done) == (fixed.text, [])
    assert fixed.text.startswith(head)
    return fixed.text.removeprefix(head)


def in_tool(line: str, returns: str = "") -> str:
    start = TOOL.format(returns)
    code = fix(start + textwrap.indent(line, "    ") + "\n")
    return textwrap.dedent(code.partition('"""Do."""\n')[2]).rstrip("\n")


# What it becomes


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'r = ToolResult(call_id=i, tool_name="t", success=True, output="x")',
            'r = ToolResult.success(i, "t", "x")',
        ),
        ('r = ToolResult(i, "t", True, "x")', 'r = ToolResult.success(i, "t", "x")'),
        (
            'r = ToolResult(i, "t", True, "x", None, 0)',
            'r = ToolResult.success(i, "t", "x").with_exit_code(0)',
        ),
        (
            'r = ToolResult(success=False, error="no", tool_name="t", call_id=i, metadata={})',
            'r = ToolResult.error(i, "t", "no")',
        ),
        (
            'r = ToolResult(call_id=i, tool_name="t", success=False, output="no")',
            'r = ToolResult.error(i, "t", "no")',
        ),
        (
            'r = ToolResult(call_id=i, tool_name="t", success=False, output=m, error=m)',
            'r = ToolResult.error(i, "t", m)',
        ),
        (
            'r = ToolResult(call_id=i, tool_name="t", success=False, output=o, error=e)',
            'r = ToolResult.error(i, "t", e, output=o)',
        ),
        (
            'r = ToolResult(i, "t", True, "x", metadata={"a": 1, "b": [2]}, execution_time_ms=3)',
            'r = ToolResult.success(i, "t", "x").with_metadata("a", 1).with_metadata("b", [2]).with_execution_time(3)',
        ),
        (
            'r = ToolResult(i, "t", True, "x", metadata={"a": 1, **m})',
            'r = ToolResult.success(i, "t", "x").with_all_metadata({"a": 1, **m})',
        ),
        (
            'r = ToolResult(i, "t", True, "x", content=[a, *b])',
            'r = ToolResult.success(i, "t", "x").with_content(a, *b)',
        ),
        (
            'r = [ToolResult(i, "t", True, ToolResult(i, "u", True, "x").output)]',
            'r = [ToolResult.success(i, "t", ToolResult.success(i, "u", "x").output)]',
        ),
        (
            'r = ToolResult(i, "t", True, "x", exit_code=0).with_metadata("a", 1)',
            'r = ToolResult.success(i, "t", "x").with_exit_code(0).with_metadata("a", 1)',
        ),
    ],
)
def test_a_result_built_by_hand_becomes_a_helper(before: str, after: str) -> None:
    assert flat(fix(before + "\n")) == flat(after)


def flat(code: str) -> str:
    """Return code as Python would write it: how long lines are broken is not the matter here."""
    return ast.unparse(ast.parse(code))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'return ToolResult(call_id=call.id, tool_name="t", success=True, output=x)',
            "return call.success(x)",
        ),
        ('return ToolResult(tool_name="t", success=True, output=x)', "return call.success(x)"),
        ('return ToolResult(None, "t", False, error="no")', 'return call.error("no")'),
        (
            "return ToolResult(call_id=other, tool_name='t', success=True, output=x)",
            "return ToolResult.success(other, 't', x)",
        ),
        (
            "try:\n    pass\nexcept ValueError as e:\n    return ToolResult(call.id, 't', False, error=e)",
            "try:\n    pass\nexcept ValueError as e:\n    return call.error(str(e))",
        ),
    ],
)
def test_in_a_tool_the_call_makes_the_result(before: str, after: str) -> None:
    assert in_tool(before) == after


def test_aliases_stay_as_they_are_written() -> None:
    head = "import callsheet as cs\nfrom callsheet import ToolResult as R\n"
    assert (
        fix('a = cs.ToolResult(i, "t", True, "x")\n', head)
        == 'a = cs.ToolResult.success(i, "t", "x")\n'
    )
    assert fix('a = R(i, "t", False, error="x")\n', head) == 'a = R.error(i, "t", "x")\n'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("return ToolResult(**x)", "can't be seen"),
        ("return ToolResult(*x)", "can't be seen"),
        ('return ToolResult(call.id, "t", True, x, timestamp=3)', "not fields of a result"),
        ('return ToolResult(call.id, "t", True)', "no output"),
        ('return ToolResult(call.id, "t", True, x, "but")', "success with an error"),
        ('return ToolResult(call.id, "t", False)', "no message"),
        ('return ToolResult(call.id, "t", x == 3, x)', "whether it's a success"),
        ('return ToolResult(call.id, "t", output=x)', "whether it's a success"),
        ('return ToolResult(call.id, "t", True, [x])', "its output is data"),
        ('return ToolResult(call.id, "t", True, x, metadata=x or {})', "metadata"),
        ('return ToolResult(call.id, "t", True, x, exit_code=None if x else 3)', "may be None"),
        ('return ToolResult(call.id, "t", True, x, content=x)', "content"),
        ("return f\"{ToolResult(call.id, 't', True, x)}\"", "f-string"),
        ('return {"success": True, "output": x, "rows": 3}', "which of its keys are metadata"),
        ('return ToolResult(i(), "t", True, (yield 1), metadata={"a": (yield 2)})', "order"),
        ('return ToolResult(call.id, "t", True, x,  # why\n)', "comments"),
        ('return ToolResult(call.id, "t", False, error=x if f() else None)', "may be None"),
        (
            'return ToolResult(call.id, "t", metadata={"a": (yield 2)}, output=(yield 1), success=True)',
            "order",
        ),
        (
            'return ToolResult(call.id, "t", True, x, error=log(x) and None)',
            "may be None",
        ),
    ],
)
def test_what_needs_a_decision_is_left_alone_and_shows_why(line: str, why: str) -> None:
    start = TOOL.format("")
    code = HEAD + start + textwrap.indent(line, "    ") + "\n"
    hits = [finding for finding in lint_text(code) if finding.rule == "result/by-hand"]
    assert [finding.new is not None for finding in hits] == [False]
    assert why in hits[0].fix
    assert fix_text(code).text == code


def test_without_an_id_or_a_name_a_result_is_left_alone() -> None:
    for line in (
        'r = ToolResult(tool_name="t", success=True, output="x")',
        'r = ToolResult(i, success=True, output="x")',
    ):
        assert fix(line + "\n") == line + "\n"


def test_a_silenced_result_is_left_alone() -> None:
    code = 'r = ToolResult(i, "t", True, "x")  # callsheet: ignore[result/by-hand]\n'
    assert fix(code) == code


# How it looks


def test_arguments_stay_as_they_are_written() -> None:
    code = 'r = ToolResult(i, "t", True, f"{x}"  \'b\', metadata={"a": {"b":  1}, "c": max(\n    2,\n)})\n'
    after = (
        'r = ToolResult.success(i, "t", f"{x}"  \'b\')'
        '.with_metadata("a", {"b":  1}).with_metadata("c", max(\n    2,\n))\n'
    )
    assert fix(code) == after


def test_text_that_takes_more_than_one_byte_is_counted_right() -> None:
    code = 'é = "→"; r = ToolResult("ü" + i, "t", True, "ä"); ö = "→"\n'
    assert fix(code) == 'é = "→"; r = ToolResult.success("ü" + i, "t", "ä"); ö = "→"\n'


def test_a_form_feed_is_no_new_line() -> None:
    code = 'a = 1\n\x0c\nr = ToolResult(i, "t", True, "x\x0b\u2028")\n'
    assert fix(code) == 'a = 1\n\x0c\nr = ToolResult.success(i, "t", "x\x0b\u2028")\n'


# That it says the same


@dataclass
class ByHand:
    """A result class as people write it."""

    call_id: str
    tool_name: str
    success: bool
    output: str | None = None
    error: str | None = None
    exit_code: int | None = None
    execution_time_ms: float | None = None
    metadata: dict[str, Any] | None = field(default_factory=dict)


TEXTS = st.sampled_from(
    ['"done"', "f'{word} é'", "(\n    'a'\n    'b'\n)", "word", "word + '#'", '"""x\ny"""']
)
METADATA = st.sampled_from(
    ["{}", "None", "{'a': 1}", "{'a': [1, (2)], 'b': word}", "{**facts, 'c': None}"]
)


@st.composite
def constructions(draw: st.DrawFn) -> str:
    """Draw a `ToolResult(…)` as people write it."""
    success = draw(st.sampled_from(["True", "False"]))
    given = {"call_id": '"c" + word', "tool_name": "'t'", "success": success}
    if success != "True":
        given["error"] = draw(TEXTS)
    elif draw(st.booleans()):
        given["error"] = "None"
    if success != "False" or draw(st.booleans()):
        given["output"] = draw(TEXTS)
    for name, values in (
        ("exit_code", st.sampled_from(["None", "number", "-1"])),
        ("execution_time_ms", st.sampled_from(["None", "1.5", "number * 2"])),
        ("metadata", METADATA),
    ):
        if draw(st.booleans()):
            given[name] = draw(values)
    fields = draw(st.permutations(list(given.items())))
    parts = [f"{name}={value}" for name, value in fields]
    if draw(st.booleans()):
        return "ToolResult(" + ", ".join(parts) + ")"
    lines = "".join(f"        {part},\n" for part in parts)
    return f"ToolResult(\n{lines}    )"


@given(construction=constructions(), number=st.sampled_from([0, 3]))
def test_what_was_fixed_shows_the_same_as_what_was_built_by_hand(
    construction: str, number: int
) -> None:
    code = f"def f(word, number, facts):\n    return {construction}\n"
    fixed = fix(code)
    assert "ToolResult(" not in fixed
    arguments = ("w", number, {"f": 1})
    old: Any = run(code, ToolResult=ByHand)(*arguments)
    new: Any = run(fixed, ToolResult=ToolResult)(*arguments)
    assert (new.call_id, new.tool_name, new.success) == (old.call_id, old.tool_name, old.success)
    assert (new.exit_code, new.execution_time_ms) == (old.exit_code, old.execution_time_ms)
    assert dict(new.metadata) == (old.metadata or {})
    if old.success:
        assert (new.output, new.error) == (old.output, None)
    else:
        assert new.error == old.error.strip()
        assert (old.output or "").rstrip() in new.output


def run(code: str, **names: object) -> Any:
    exec(code, names)
    return names["f"]


# Files

BAD = 'from callsheet import ToolResult\n\nr = ToolResult(i, "t", True, "é")\n'
GOOD = BAD.replace("ToolResult(i", "ToolResult.success(i").replace("True, ", "")


def fix_file(path: Path) -> None:
    outcome = lint_paths([path], fix=True)
    assert outcome.problems == []
    assert len(outcome.fixed) == 1


def test_newlines_encoding_and_mode_of_a_file_are_preserved(tmp_path: Path) -> None:
    for encoding, mark in (("utf-8", ""), ("utf-8-sig", ""), ("latin-1", "# coding: latin-1\n")):
        for newline in ("\n", "\r\n"):
            path = tmp_path / f"a-{encoding}.py"
            path.write_bytes((mark + BAD).replace("\n", newline).encode(encoding))
            path.chmod(0o750)
            fix_file(path)
            assert path.read_bytes() == (mark + GOOD).replace("\n", newline).encode(encoding)
            assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert len(list(tmp_path.iterdir())) == 3


def test_newlines_of_an_old_mac_are_preserved(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(BAD.replace("\n", "\r").encode())
    fix_file(path)
    assert path.read_bytes() == GOOD.replace("\n", "\r").encode()


def test_mixed_newlines_stay_where_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    lines = BAD.split("\n")
    path.write_bytes((lines[0] + "\r\n" + lines[1] + "\n" + lines[2] + "\r\nx = 1\n\r\n").encode())
    fix_file(path)
    fixed = GOOD.split("\n")
    assert (
        path.read_bytes()
        == (fixed[0] + "\r\n" + fixed[1] + "\n" + fixed[2] + "\r\nx = 1\n\r\n").encode()
    )


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_text(BAD, encoding="utf-8")
    link.symlink_to(real)
    fix_file(link)
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == GOOD


def test_a_file_without_anything_to_fix_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(GOOD.encode())
    os.utime(path, ns=(1, 1))
    assert lint_paths([path], fix=True).fixed == []
    assert path.stat().st_mtime_ns == 1


def test_a_file_that_can_not_be_written_is_reported_and_not_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_text(BAD, encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    outcome = lint_paths([path], fix=True)
    assert (outcome.fixed, len(outcome.findings), outcome.exit_code) == ([], 1, 2)
    assert "No space left on device" in outcome.problems[0].message
