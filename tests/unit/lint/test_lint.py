"""What `callsheet lint` finds in the code of tools, and what it leaves alone."""

from __future__ import annotations

import ast
import contextlib
import re
import time
from pathlib import Path

import pytest

from callsheet.lint import RULES, fix_text, lint_paths, lint_text
from callsheet.lint.linter import CannotLint
from callsheet.lint.module import ERRORS, FIELDS
from callsheet.tools.errors import ToolError
from callsheet.tools.result import ToolResult
from callsheet.tools.signature import BadTool
from tests.support import ROOT

HEAD = """\
import asyncio, contextlib, json, os, pathlib, shutil, sqlite3, subprocess, time
import functools, msgspec, requests, urllib.request
from pathlib import Path
from callsheet import Call, Session, ToolError, ToolResult, tool
from callsheet.tools.errors import NotFound
"""
LINES = HEAD.count("\n")

HAND = "result/by-hand"
MUTE = "result/success-without-output"
ERROR = "result/error-without-message"
CALL_ID = "result/missing-call-id"
SWALLOWED = "result/swallowed"


RESULTS = tuple(rule for rule in RULES if rule.category == "result")


def found(code: str, *, head: str = HEAD, rules=RESULTS, **options: bool) -> list[str]:
    return [finding.rule for finding in lint_text(head + code, rules=rules, **options)]


def of_tool(code: str, *, head: str = HEAD) -> list[str]:
    """Return what is found by the other rules, without their category."""
    rules = [rule for rule in RULES if rule not in RESULTS]
    return [rule.partition("/")[2] for rule in found(code, head=head, rules=rules)]


def in_tool(body: str) -> list[str]:
    """Lint lines as the body of a tool."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return found(f'@tool\ndef t(call: Call, path: Path, x: str):\n    """Do."""\n{lines}')


# The rules themselves


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_bad_example_of_a_rule_breaks_it_and_the_good_one_breaks_none(rule) -> None:
    assert found(rule.bad, head="", rules=RULES) == [rule.id]
    assert found(rule.good, head="", rules=RULES) == []


def test_the_example_of_the_document_is_found_and_fixed() -> None:
    text = (ROOT / "docs" / "how-to" / "lint.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert found(example, head="") == [HAND]
    assert found(fix_text(example).text, head="") == []


def test_the_linter_knows_the_names_of_the_library() -> None:
    result = ToolResult.success("1", "t", "x").with_content("more")
    assert tuple(result.to_dict()) == FIELDS
    errors = {ToolError, *ToolError.__subclasses__()}
    assert {error.__name__ for error in errors if error.__module__ == ToolError.__module__} == set(
        ERRORS
    )


# What a tool is made from


@pytest.mark.parametrize(
    ("signature", "rules"),
    [
        ("call, x: str", []),
        ("call: Call, x: 'int' = 3, *, y: list[str] | None = None", []),
        ("x, y: int, z=3", ["missing-hint"] * 2),
        ("x: str, call", ["missing-hint"]),
        ("self, x: str", ["missing-hint"]),
        ("*args: str, **kwargs: str", ["unnamed-parameter"] * 2),
        ("*args", ["unnamed-parameter"]),
        ("x: str, /, y: str", ["unnamed-parameter"]),
        ("x: str, *, y: str", []),
        ("x: Other", ["missing-hint"]),
        ("x: 'list[Other]'", ["missing-hint"]),
        ("x: str", []),
    ],
)
def test_a_tool_that_can_not_be_imported_is_found(signature: str, rules: list[str]) -> None:
    head = (
        "from __future__ import annotations\n"
        "from typing import TYPE_CHECKING\nfrom callsheet import tool\n"
        "if TYPE_CHECKING:\n    from callsheet import Call\n    from elsewhere import Other\n"
    )
    code = f'@tool\ndef t({signature}) -> str:\n    """Do."""\n    return "x"\n'
    assert of_tool(code, head=head) == rules
    try:
        exec(compile(head + code, "<tool>", "exec", dont_inherit=True), {"__name__": "made"})
    except BadTool:
        assert rules
    else:
        assert not rules  # the linter and `@tool` agree


@pytest.mark.parametrize(
    ("decorator", "rules"),
    [
        ("@tool", ["missing-docstring"]),
        ("@tool(kind='read', description='')", ["missing-docstring"]),
        ("@tool(description='Adds.')", []),
        ("@tool(**OPTIONS)", []),
        ("@other", []),
    ],
)
def test_a_tool_that_a_model_knows_nothing_of_is_found(decorator: str, rules: list[str]) -> None:
    assert of_tool(f"{decorator}\ndef t(x: int):\n    return str(x)\n") == rules


@pytest.mark.parametrize(
    ("parameter", "is_found"),
    [
        ("path: str", True),
        ("path: 'str | None' = None", True),
        ("file_name: Annotated[str, 'the file']", True),
        ("files: list[str]", True),
        ("output_dir: typing.Optional[str] = None", True),
        ("path: Path", False),
        ("paths: list[Path]", False),
        ("files: dict[str, str]", False),
        ("profile: str", False),
        ("url_path: str", False),
        ("path: int", False),
    ],
)
def test_a_path_that_is_text_is_found(parameter: str, is_found: bool) -> None:
    code = f'@tool\ndef t({parameter}):\n    """Do."""\n    return "x"\n'
    assert of_tool(code) == ["path-as-text"] * is_found
    assert of_tool(code.replace("@tool\n", "")) == []
    assert of_tool(code.replace("):", "):  # callsheet: ignore[tool/path-as-text]")) == []


def test_an_unknown_rule_in_a_comment_is_found_where_it_stands() -> None:
    code = "é = 1  # callsheet: ignore[result/by-hands]\n# callsheet: ignore-file[tools]\n"
    first, second = lint_text(code)
    assert (first.rule, first.line, first.column) == ("comment/unknown-rule", 1, 8)
    assert (first.fix, second.fix) == ("write result/by-hand", "write tool")
    assert lint_text("x = '# callsheet: ignore[nothing]'\n") == []


# Results built by hand


@pytest.mark.parametrize(
    "line",
    [
        'return ToolResult(call_id=call.id, tool_name="t", success=True, output=x)',
        'return ToolResult(call.id, "t", True, x)',
        "return ToolResult(**x)",
        'return {"success": True, "output": x}',
        'return {"success": x.ok, "error": x.why, "count": 3}',
        'return {"success": False, "message": "no"}',
        'return {"error": "not found"}',
    ],
)
def test_a_result_built_by_hand_is_found(line: str) -> None:
    assert in_tool(line) == [HAND]


@pytest.mark.parametrize(
    "line",
    [
        'return {"temperature": 3, "unit": "C"}',
        'return {"success": True}',
        'return {"error": None, "rows": x}',
        'return {"errors": [], "warnings": []}',
        'data = {"success": True, "output": x}\nlog(data)\nreturn call.success(x)',
        "return isinstance(x, ToolResult)",
        "kinds: dict[str, type] = {'r': ToolResult}\nreturn kinds",
    ],
)
def test_data_that_is_no_result_is_left_alone(line: str) -> None:
    assert in_tool(line) == []


def test_a_dict_is_a_result_only_where_a_tool_returns_it() -> None:
    result = '{"call_id": i, "tool_name": "t", "success": True, "output": "x"}'
    assert found(f"@tool\ndef run(i):\n    return {result}\n") == [HAND]
    assert found(f"def run(i):\n    return {result}\n") == []


def test_a_test_may_not_build_results_by_hand_either() -> None:
    assert found("def test_it():\n    ToolResult('c', 't', True, 'x')\n", is_test=True) == [HAND]


# Names


@pytest.mark.parametrize(
    "imports",
    [
        "from callsheet import ToolResult as Made",
        "import callsheet as cs\nMade = None\nclass X:\n    pass\nfrom callsheet import ToolResult as Made",
        "from callsheet.tools.result import ToolResult as Made",
        "try:\n    from callsheet import ToolResult as Made\nexcept ImportError:\n    Made = None",
        "if TYPE_CHECKING:\n    from callsheet import ToolResult as Made",
    ],
)
def test_names_are_followed_through_aliases(imports: str) -> None:
    code = f"{imports}\ndef f(i) -> 'Made':\n    return Made(i, 'f', True, 'x')\n"
    assert found(code, head="") == [HAND]


def test_attributes_of_the_package_are_followed() -> None:
    code = "import callsheet as cs\n@cs.tool\ndef f(call: cs.Call):\n    return cs.ToolResult()\n"
    assert HAND in found(code, head="")
    assert found(
        "import callsheet\n@callsheet.tool(kind='read')\ndef f(x):\n    return ''\n", head=""
    )


@pytest.mark.parametrize(
    "imports",
    [
        "from langchain.tools import tool",
        "from smolagents import tool\nfrom mcp.types import ToolResult, Call",
        "from .base import tool, ToolResult, Call",
        "from vendor import *",
        "def tool(function):\n    return function",
    ],
)
def test_tools_and_results_of_others_are_left_alone(imports: str) -> None:
    code = (
        f"import time\n{imports}\n@tool\nasync def f(call: Call) -> ToolResult:\n    time.sleep(1)\n"
        "    try:\n        g()\n    except:\n        pass\n    return ToolResult(output='', error='')\n"
    )
    if "ToolResult" not in imports and "*" not in imports:
        code = code.replace("-> ToolResult", "").replace("ToolResult(output='', error='')", "''")
        code = code.replace(": Call", "")
    assert found(code, head="") == []


def test_a_parameter_that_is_called_like_an_import_means_nothing() -> None:
    body = "    with contextlib.suppress(Exception): g()\n    return 'x'\n"
    assert found(f"@tool\ndef f(x):\n{body}") == [SWALLOWED]
    assert found(f"@tool\ndef f(contextlib):\n{body}") == []


def test_a_name_is_ours_only_if_the_file_itself_imports_it_from_us() -> None:
    code = "@tool\ndef f(x):\n    return ''\n"
    assert found(f"from callsheet import *\n{code}", head="") == [MUTE]
    assert found(f"from .base import *\n{code}", head="") == []
    assert found(code, head="") == []


# Which functions are tools


@pytest.mark.parametrize(
    ("code", "is_tool"),
    [
        ("@tool\ndef f(x): BODY", True),
        ("@tool(kind='read')\ndef f(x): BODY", True),
        ("def f(x): BODY\ns = Session(on_update=f)", False),
        ("def f(x) -> ToolResult: BODY", True),
        ("def f(x) -> 'ToolResult | None': BODY", True),
        ("class A:\n  async def f(self) -> ToolResult: BODY", True),
        ("def f(x) -> list[ToolResult]: BODY", False),
        ("def f(x): BODY", False),
        ("def f(x, r: ToolResult) -> str: BODY", False),
        ("def f(call: Call): BODY; call.success(x)", True),
        ("def f(call: Call): BODY", False),
    ],
)
def test_what_is_a_tool(code: str, is_tool: bool) -> None:
    code = code.replace("BODY", "\n    with contextlib.suppress(Exception): g()")
    assert (SWALLOWED in found(code + "\n")) is is_tool


# Saying nothing


@pytest.mark.parametrize(
    "line",
    [
        'return call.success("")',
        'return call.success(" \\n")',
        "return call.success(None)",
        'return call.success(output="")',
        'return ToolResult.success(call.id, "t", "").with_metadata("a", 1)',
        'return ""',
        "print(x)",
        "log(x)\nreturn",
    ],
)
def test_a_success_that_shows_nothing_is_found(line: str) -> None:
    assert in_tool(line) == [MUTE]


@pytest.mark.parametrize(
    "line",
    [
        "return call.success(x)",
        'text = ""\nfor c in x:\n    text += c\nreturn call.success(text)',
        'return call.success("").with_content(x)',
        'return call.success("").as_written()',
        'call.write(x)\nreturn call.success("done")',
        "call.write(x)",
        "yield x",
        "raise NotImplementedError",
        "...",
        "return x",
        "return None if x else 'x'",
    ],
)
def test_a_success_that_shows_something_is_left_alone(line: str) -> None:
    assert in_tool(line) == []


@pytest.mark.parametrize(
    "line",
    [
        'return call.error("")',
        "return call.error(None)",
        'return ToolResult.error(call.id, "t", " ")',
        "raise ToolError",
        "raise ToolError()",
        'raise NotFound("")',
        'raise ToolError("", output=x)',
        'raise NotFound(message="") from None',
    ],
)
def test_an_error_that_shows_nothing_is_found(line: str) -> None:
    assert in_tool(line) == [ERROR]


@pytest.mark.parametrize(
    "line",
    [
        "return call.error(x)",
        'return call.error("no", output="")',
        "raise NotFound(x)",
        "raise ToolError(*x)",
        "raise ToolError(**x)",
        "raise ValueError",
        "return call.error(str(x))",
    ],
)
def test_an_error_that_shows_something_is_left_alone(line: str) -> None:
    assert in_tool(line) == []


# Ids


def plain(line: str, parameters: str = "i") -> list[str]:
    return found(f"def f({parameters}):\n    {line}\n")


@pytest.mark.parametrize("call_id", ["None", '""', '"call_1"', "7", "'  '"])
def test_a_call_id_that_is_missing_or_made_up_is_found(call_id: str) -> None:
    line = f"return ToolResult.success({call_id}, 'f', 'x')"
    assert plain(line) == [CALL_ID]
    assert in_tool(line) == [CALL_ID]
    named = f"return ToolResult.success(output='x', tool_name='f', call_id={call_id})"
    assert CALL_ID in plain(named)


def test_a_call_id_that_comes_from_the_call_is_left_alone() -> None:
    for call_id in ("i", "self.call_id", "request['id']", "new_id()"):
        assert plain(f"return ToolResult.success({call_id}, 'f', 'x')") == []


def test_an_empty_call_id_is_found_outside_of_tools_too_but_a_constant_one_is_not() -> None:
    assert found("r = ToolResult.success('', 'f', 'x')\n") == [CALL_ID]
    assert found("r = ToolResult.success('c1', 'f', 'x')\n") == []


# Swallowed failures


@pytest.mark.parametrize(
    "handler",
    [
        "except: pass",
        "except Exception: pass",
        "except BaseException: ...",
        "except (ValueError, Exception): pass",
        "except Exception as e: return",
        "except Exception: return None",
        "except Exception: 'never mind'",
    ],
)
def test_a_swallowed_failure_is_found(handler: str) -> None:
    assert in_tool(f"try:\n    g()\n{handler}\nreturn x") == [SWALLOWED]


def test_a_failure_swallowed_in_a_loop_by_suppress_or_in_a_function_inside_is_found() -> None:
    assert in_tool("for a in x:\n    try: g()\n    except Exception: continue\nreturn x") == [
        SWALLOWED
    ]
    assert in_tool("with contextlib.suppress(Exception):\n    g()\nreturn x") == [SWALLOWED]
    assert in_tool("def h():\n    try: g()\n    except: pass\nh()\nreturn x") == [SWALLOWED]


@pytest.mark.parametrize(
    "handler",
    [
        "except FileNotFoundError: pass",
        "except (OSError, ValueError): pass",
        "except Exception: log(x)",
        "except Exception as e: return call.error(str(e))",
        "except Exception: raise",
        "except Exception: x = 'none'",
    ],
)
def test_a_failure_that_is_expected_or_reported_is_left_alone(handler: str) -> None:
    assert in_tool(f"try:\n    g()\n{handler}\nreturn x") == []


# Silencing


def test_a_comment_silences_a_rule_a_category_or_all() -> None:
    line = 'return call.error("")'
    for comment in ("ignore", "ignore[result]", f"ignore[{ERROR}]", f"ignore[ {MUTE}, {ERROR} ]"):
        assert in_tool(f"{line}  # callsheet: {comment}") == []
    for comment in (f"ignore[{MUTE}]", "ignored", "ignore-fil"):
        assert in_tool(f"{line}  # callsheet: {comment}") == [ERROR]
    assert in_tool(f'y = "# callsheet: ignore"; {line}') == [ERROR]


def test_a_comment_holds_for_its_statement_only() -> None:
    body = 'if x:\n    return call.success("")  # callsheet: ignore\nreturn call.success("")'
    assert in_tool(body) == [MUTE]
    spread = 'return call.success(\n    # callsheet: ignore[result]\n    "",\n)'
    assert in_tool(spread) == []
    head = 'if x:  # callsheet: ignore\n    return call.success("")\nreturn x'
    assert in_tool(head) == [MUTE]
    handler = "try:\n    g()\nexcept Exception:\n    pass  # callsheet: ignore[result/swallowed]\nreturn x"
    assert in_tool(handler) == []


def test_a_comment_silences_a_rule_in_the_whole_file() -> None:
    code = 'from callsheet import tool\n@tool\ndef f(x):\n    return ""\n'
    assert found(code + "# callsheet: ignore-file[result]\n", head="") == []
    assert found(code + "# callsheet: ignore-file[other]\n", head="") == [MUTE]


def test_a_comment_counts_whatever_ends_a_line() -> None:
    code = 'from callsheet import tool\n@tool\ndef f(x):\n    return ""  # callsheet: ignore\n'
    for end in ("\n", "\r\n", "\r"):
        assert found(code.replace("\n", end), head="") == []
        assert found(code.replace("ignore", "no").replace("\n", end), head="") == [MUTE]


# Places, and odd texts


def test_columns_are_counted_in_characters() -> None:
    (finding,) = lint_text(
        f'{HEAD}@tool\ndef f(x: str):\n    é = "äöü"; return ""\n', rules=RESULTS
    )
    assert (finding.line, finding.column) == (LINES + 3, 23)


@pytest.mark.parametrize(
    "text", ["def f(:\n", "x = (\n", "\tx\n  y\n", "a\0b", "(" * 1000 + ")" * 1000, "return\x0c)"]
)
def test_what_is_no_python_is_reported_as_none(text: str) -> None:
    with pytest.raises(CannotLint):
        lint_text(text)


def test_deep_nesting_is_reported_and_not_raised() -> None:
    for depth in (300, 900, 5_000, 50_000):
        code = f"{HEAD}@tool\ndef f(x: str):\n    'Do.'\n    return {'+'.join(['x'] * depth)}\n"
        with contextlib.suppress(CannotLint):
            assert lint_text(code) == []


def test_ordinary_code_is_left_alone_and_linted_in_no_time() -> None:
    library = Path(ast.__file__).parent
    began = time.perf_counter()
    outcome = lint_paths([library / name for name in ("asyncio", "concurrent", "json")])
    took = time.perf_counter() - began
    assert outcome.files > 30
    assert outcome.findings == []
    assert outcome.problems == []
    assert took < 10  # it takes about half a second


def test_the_projects_own_tools_pass() -> None:
    outcome = lint_paths([ROOT / "src" / "callsheet" / "tools"])
    assert outcome.files > 10
    assert outcome.findings == []
    assert outcome.problems == []
