"""Titles: on one line, of bounded width, never cut inside a character, and as a peer renders them."""

from __future__ import annotations

import unicodedata
from random import Random
from typing import Any

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from callsheet.describe import LOCALES, Describer, escape_title, fit_title
from callsheet.describe.arguments import PATH
from callsheet.describe.describer import TITLE_WIDTH
from callsheet.describe.titles import clusters, cut, fit, one_line, width
from tests.support.sizes import fewer, sized

describe = Describer("/home/me/app", home="/home/me")

FAMILY = "👨‍👩‍👧‍👦"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = st.sampled_from(
    [
        "path",
        "file_path",
        "paths",
        "files",
        "command",
        "cmd",
        "args",
        "pattern",
        "query",
        "url",
        "uri",
        "source",
        "destination",
        "offset",
        "limit",
        "line",
        "view_range",
        "range",
        "edits",
        "changes",
        "input",
        "diff",
        "todos",
        "plan",
        "questions",
        "mode",
        "action",
        "description",
        "cwd",
        "tool_name",
        "server_name",
        "arguments",
        "name",
        "code",
        "operation",
    ]
)
NAMES = st.sampled_from(
    [
        "read",
        "Bash",
        "edit",
        "write",
        "apply_patch",
        "str_replace_editor",
        "move",
        "delete",
        "grep",
        "glob",
        "list",
        "fetch",
        "web_search",
        "task",
        "todo",
        "use_mcp_tool",
        "mcp__x__y",
        "mcp__fs__move_file",
        "fs_read",
        "terminal_output",
        "process",
        "lsp",
        "frobnicate",
        "delete_target",
        "ask_user",
        "read_many_files",
        "switch_mode",
        "skill",
        "python",
        "BashOutput",
        "memory",
    ]
) | st.text(max_size=20)
LOOSE = st.text(st.characters(codec=None), max_size=200)


@fewer()
@given(
    NAMES, st.dictionaries(KEYS, JSON | LOOSE, max_size=6) | JSON | LOOSE, st.sampled_from(LOCALES)
)
@example("read", {"path": "\ud800"}, "en")
@example("bash", {"command": "\x1b[31m" + "e\u0301" * 500}, "ja")
def test_any_call_gets_a_title_that_fits_and_can_be_sent(
    name: str, raw_input: Any, locale: str
) -> None:
    described = Describer("/w", locale=locale)(name, raw_input)
    title = described.title
    assert title.strip()
    assert title.encode()
    assert "\n" not in title
    assert len(title.splitlines()) == 1
    assert width(title) <= TITLE_WIDTH
    assert not any(unicodedata.category(char) == "Cc" for char in title)
    assert all(place.path for place in described.locations)
    assert len(described.locations) <= 8


@fewer()
@given(st.text(max_size=300), st.integers(2, 60))
@example(FAMILY * 40, 20)
@example("🇩🇪" * 40, 15)
@example("e\u0301" * 90, 10)
@example("\u1112\u1161\u11ab" * 30, 9)
@example("क्षि" * 30, 9)
@example("日本語" * 30, 10)
@example("👍🏽✌️" * 20, 9)
def test_a_cut_is_never_inside_a_character(text: str, limit: int) -> None:
    line = one_line(text)
    shown = cut(line, limit)
    assert width(shown) <= limit
    if shown != "".join(clusters(line)):
        head, _, tail = shown.partition("…") if "…" not in line else (shown, "", "")
        borders = {match.start() for match in regex.finditer(r"\X", line)} | {len(line)}
        if head != shown and "\ufffd" not in shown:
            assert line.startswith(head)
            assert line.endswith(tail)
            assert len(head) in borders
            assert len(line) - len(tail) in borders


def test_a_long_value_keeps_both_its_ends() -> None:
    title = describe("read", {"path": "src/" + "deep/" * 60 + "file.py"}).title
    assert title.startswith("Reading src/deep/")
    assert title.endswith("/file.py")
    assert title.count("…") == 1
    assert width(title) <= TITLE_WIDTH


def test_width_counts_columns_not_characters() -> None:
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert width(FAMILY) == 2
    assert width("🇩🇪") == 2
    assert width("\u1112\u1161\u11ab") == 2
    title = describe("bash", {"command": "日本語" * 100}).title
    assert 100 < width(title) <= TITLE_WIDTH
    assert len(title) < 70


def test_a_character_of_a_thousand_marks_is_not_shown() -> None:
    assert fit("a" + "\u0301" * 1000 + "b", 20) == "\ufffdb"


def test_line_breaks_of_a_command_stay_visible() -> None:
    assert (
        describe("bash", {"command": "echo hi\n\nrm -rf x\n"}).title
        == "Running `echo hi ⏎ rm -rf x`"
    )
    assert describe("grep", {"pattern": "a\nb\tc"}).title == "Searching for 'a b c'"


def test_nothing_in_a_title_steers_the_terminal_or_the_reading_direction() -> None:
    title = describe("read", {"path": "\x1b[31mevil\x1b]8;;x\x07\u202e\u2066fdp.exe\x00"}).title
    assert title == "Reading evilfdp.exe"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo a \x1b];rm -rf x;\x07 b", "echo a ␛];rm -rf x;␇ b"),
        ("echo \x1b[1;id", "echo ␛[1;id"),
        ("echo \x9b8m;id", "echo \ufffd8m;id"),
        ("ls\x08\x08id", "ls␈␈id"),
        ("ls #\u202e\n id", "ls #\ufffd ⏎ id"),
        ("ls\u200b -a", "ls\ufffd -a"),
    ],
)
def test_what_cannot_be_seen_hides_nothing_of_a_command(command: str, shown: str) -> None:
    assert describe("bash", {"command": command}).title == f"Running `{shown}`"


def test_right_to_left_names_do_not_turn_a_move_around() -> None:
    title = describe("move", {"source": "אבג", "destination": "דהו"}).title
    assert title == "Moving \u2068אבג\u2069 → \u2068דהו\u2069"


@pytest.mark.parametrize("locale", ["ar", "he_IL.UTF-8", "xx", "tlh", "\x00", "🦆", "a" * 500])
def test_right_to_left_and_unknown_locales_never_break(locale: str) -> None:
    assert Describer("/w", locale=locale)("read", {"path": "a.py"}).title == "Reading a.py"


@pytest.mark.parametrize("key", PATH)
def test_the_path_is_found_under_any_of_its_names(key: str) -> None:
    for name, title in (
        ("read", "Reading a.py"),
        ("edit", "Editing a.py"),
        ("write", "Writing to a.py"),
    ):
        described = describe(name, {"other": 1, key: "a.py"})
        assert described.title == title
        assert [place.path for place in described.locations] == ["/home/me/app/a.py"]


def test_the_input_stays_whole() -> None:
    command = "echo " + "long " * 200
    raw_input = {"command": command, "env": {"A": "1"}}
    assert "…" in describe("bash", raw_input).title
    assert raw_input == {"command": command, "env": {"A": "1"}}


# A tool's own title


@pytest.mark.parametrize(
    ("template", "arguments", "title"),
    [
        ("Reading {path}", {"path": "/home/me/app/src/a.py"}, "Reading src/a.py"),
        ("Reading {path}", {"file_path": "/home/me/app/src/a.py"}, "Reading src/a.py"),
        ("Reading {path}", {}, "Reading …"),
        ("Reading {path}", {"path": None}, "Reading …"),
        ("Reading {path}", {"path": ""}, "Reading …"),
        ("Deploying {service} to {env}", {"service": "api"}, "Deploying api to …"),
        ("{{literal}} {n}", {"n": 3}, "{literal} 3"),
        ("{a} {b} {c}", {"a": 1.5, "b": True, "c": ["x", "y"]}, "1.5 true x, y"),
        ("{issue.title}", {"issue": {"title": "Bug"}}, "Bug"),
        ("{issue.title}", {"issue": "no object"}, "…"),
        ("{x!r:>10}", {"x": "y"}, "y"),
        ("{x.__class__}", {"x": "y"}, "…"),
        ("{0} {} {", {}, "… … {"),
        ("}{", {}, "}{"),
        ("From {url}", {"url": "https://u:p@example.org/a"}, "From example.org/a"),
        ("{command}", {"command": "a\nb"}, "a ⏎ b"),
        ("{big}", {"big": 10**5000}, "…"),
        ("{d}", {"d": {"a": 1}}, "…"),
        ("two\nlines", {}, "two lines"),
    ],
)
def test_a_tools_own_template_is_filled(
    template: str, arguments: dict[str, Any], title: str
) -> None:
    assert describe("frobnicate", arguments, title=template).title == title


@fewer()
@given(st.text(max_size=40), st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_no_template_ever_fails(template: str, arguments: dict[str, Any]) -> None:
    assert describe("x", arguments, title=template).title.strip()


def test_a_declared_title_wins_and_one_that_we_know_is_translated() -> None:
    german = Describer("/w", locale="de")
    assert german("bash", {"command": "ls"}, title="My own words").title == "My own words"
    assert german("my_tool", {"path": "a.py"}, title="Reading {path}").title == "a.py wird gelesen"
    assert describe("bash", {"command": "ls"}, title="  ").title == "Running `ls`"


def test_a_server_may_name_its_tool() -> None:
    hints = {"title": "Open a ticket"}
    assert describe("mcp__jira__mk", {}, annotations=hints).title == "Open a ticket (jira)"
    assert describe("mcp__jira__mk", {}, annotations={"title": 3}).title == "Mk (jira)"


@pytest.mark.parametrize(
    "nothing", [None, {}, "", [], 3, {"path": None}, {"command": 5}, {"todos": 7}]
)
@pytest.mark.parametrize(
    "name", ["read", "bash", "edit", "grep", "fetch", "move", "delete", "TodoWrite", "x", ""]
)
def test_missing_input_still_gives_a_useful_title(name: str, nothing: object) -> None:
    title = describe(name, nothing).title
    assert len(title) > 1 or name == "x"
    assert "None" not in title
    assert "{" not in title


def test_an_empty_name_is_an_unknown_tool() -> None:
    assert describe("").title == "Unknown tool"
    assert describe(" \t").title == "Unknown tool"
    assert describe(None).title == "Unknown tool"  # pyright: ignore


def test_secrets_are_taken_out_before_a_cut_could_halve_them() -> None:
    secret = "ghp_" + "A1" * 18
    hidden = Describer("/w", redact=lambda text: text.replace(secret, "[redacted:github]"))
    title = hidden("bash", {"command": f"{'x' * 30} {secret} {'y' * 90}"}).title
    assert "ghp_" not in title
    assert "A1A1" not in title
    assert "[redacted:github]" in title


# As peers render them


def rendered(markdown: str) -> str:
    """Return the text that a reader of CommonMark sees."""
    parser = MarkdownIt("commonmark").enable("strikethrough")
    texts: list[str] = []
    for token in parser.parse(markdown):
        assert token.type in ("paragraph_open", "inline", "paragraph_close"), token.type
        for child in token.children or ():
            assert child.type in ("text", "code_inline"), (child.type, markdown)
            texts.append(f"`{child.content}`" if child.type == "code_inline" else child.content)
    return "".join(texts)


LINE = (
    st.text(st.sampled_from("ab1_*`[]()<>&~#+-=!|$\\ .;:'\"/é日"), min_size=1, max_size=30)
    .map(one_line)
    .filter(bool)
)


def unquoted(title: str) -> str:
    """Return a title without marks of quotation: a value has those of Markdown, or the language's."""
    return regex.sub(r"«\s?|\s?»|[`'‘’“”„「」]", "", title)


@fewer()
@given(LINE)
@example("Searching for '*_`[x](y)`_*' in __init__.py")
@example("Running `echo `date``")
@example("1. x")
@example("# x")
@example("- x")
@example("&amp; &#35; <b> ~~x~~")
@example("=== ---")
def test_a_reader_of_markdown_sees_the_characters_of_the_title(title: str) -> None:
    assert rendered(escape_title(title, "search")) == title


@fewer()
@given(LINE)
def test_kinds_that_clients_show_as_they_are_stay_as_they_are(title: str) -> None:
    assert escape_title(title, "execute") == title
    assert escape_title(title, "edit") == title
    assert escape_title(title, "read", "plain") == title


def test_a_command_is_a_code_span_whatever_backticks_it_has() -> None:
    assert escape_title("Running `cat *_x_*`", "read") == "Running `cat *_x_*`"
    assert escape_title("Running `echo `date``", "read") == "Running `` echo `date` ``"
    assert escape_title("`cat a_b_` を実行中", "read") == "`cat a_b_` を実行中"


@fewer()
@given(LINE)
@example("Searching for '*_`[x](y)`_*' in __init__.py")
@example("Running `echo `date``")
@example("[x]: y")
@example("_ _ _")
@example("~~~")
def test_a_title_reads_well_whether_it_is_rendered_or_not(title: str) -> None:
    either = escape_title(title, "search", "either")
    assert unquoted(rendered(either)) == unquoted(title)
    assert unquoted(either).split() == unquoted(title).split()


def test_what_markdown_would_swallow_stands_between_backticks() -> None:
    for title, either in {
        "Reading __init__.py": "Reading `__init__.py`",
        "Reading src/my_file.py": "Reading src/my_file.py",
        "Finding *.py": "Finding *.py",
        "Searching for '*a b*' in src": "Searching for `*a b*` in src",
        "Searching for '\\.py'": "Searching for `\\.py`",
        "Running `cat *x*`": "Running `cat *x*`",
    }.items():
        assert escape_title(title, "search", "either") == either
    assert escape_title("Editing __init__.py", "edit", "either") == "Editing __init__.py"


def test_a_path_with_underscores_stays_readable() -> None:
    assert escape_title("Reading src/my_file.py", "read") == "Reading src/my_file.py"
    assert escape_title("Reading __init__.py", "read") == r"Reading \_\_init\_\_.py"


def test_every_translated_command_title_keeps_its_code_span() -> None:
    for locale in LOCALES:
        title = Describer("/w", locale=locale)("bash", {"command": "cat a*b*"}).title
        assert "`cat a*b*`" in escape_title(title, "read"), (locale, title)


def test_hostile_input_is_described_in_linear_time() -> None:
    long = 200_000
    for name, arguments in (
        ("bash", {"command": "é" * long}),
        ("bash", {"command": "cat " + "'" * long}),
        ("bash", {"command": "sed 's/" + "\\a" * 1900 + "' x"}),
        ("bash", {"command": "wget -q " + "x " * 1900 + "'"}),
        ("read", {"path": "a/" * long}),
        ("read", {"path": "1:" * 2000}),
        ("grep", {"pattern": "\x1b]" * long + " " * long}),
        ("apply_patch", {"input": "--- " * long + "*** Update File: a\n" * 1000}),
        ("fetch", {"url": "https://" + "a@" * long}),
        ("x", {"a": ["file:///x"] * long}),
        ("mcp_" + "a_" * long, {}),
        ("aA" * long, {}),
    ):
        title = describe(name, arguments).title
        assert width(title) <= TITLE_WIDTH
        assert escape_title(title, "read")
        assert width(describe("x", title=str(arguments)).title) <= TITLE_WIDTH


LONG = "x" * 90


@pytest.mark.parametrize(
    "command",
    [
        f"echo {LONG}; rm -rf ~/data; echo {LONG}",
        f"cat {LONG} && rm -rf ~/data && cat {LONG}",
        f"cat {LONG} | rm -rf ~/data | cat {LONG}",
        f"cat {LONG}\nrm -rf ~/data\ncat {LONG}",
        f"cat {LONG} # it's\nrm -rf ~/data\ncat {LONG} # it's",
        f"cat {LONG} $(rm -rf ~/data) {LONG}",
        f'cat {LONG} "`rm -rf ~/data`" {LONG}',
        "cat a; " * 60 + "rm -rf ~/data; " + "cat b; " * 60,
    ],
)
def test_a_cut_never_hides_the_part_that_may_do_harm(command: str) -> None:
    title = describe("bash", {"command": command}).title
    assert "rm -rf ~/data" in title
    assert width(title) <= TITLE_WIDTH
    own = describe("x", {"command": command}, title="Go: {command}").title
    assert "rm -rf ~/data" in own


def command_in(title: str, locale: str) -> str:
    """Return the command that a title of ours shows between its first and its last backtick."""
    assert title.count("`") >= 2, locale
    return title[title.index("`") + 1 : title.rindex("`")]


def generated_command(random: Random) -> str:
    """Return a shell command of several parts: pipes, lists, loops, substitutions, quotes, line breaks."""
    words = (
        "echo",
        "seq 1 200",
        "while read i",
        "do echo",
        "done",
        "rm -rf x",
        "grep -n 'a b'",
        "cat",
    )
    parts = [
        f"{random.choice(words)} {random.choice(('', 'y', 'z.txt', 'long' * random.randrange(40)))}"
        for _ in range(random.randrange(1, 9))
    ]
    glue = (" | ", "; ", " && ", "\n", "  ", " $(", ' "', "`", " & ", "\t||\t", " <(", ")\n\n(")
    return "".join(part + random.choice(glue) for part in parts)


@pytest.mark.parametrize("locale", LOCALES)
def test_a_shell_command_reads_as_it_was_written(locale: str) -> None:
    speak = Describer("/home/me/app", locale=locale)
    random = Random(17)
    for _ in range(sized(5000, 300)):
        command = generated_command(random)
        if not command.strip():
            continue
        shown = command_in(speak("bash", {"command": command}).title, locale)
        written = one_line(command, " ⏎ ")
        if width(written) <= 100:
            assert shown == written
            continue
        assert "…" in shown
        at = 0
        for piece in shown.split("…"):  # only where an ellipsis stands, something is left out
            at = written.find(piece, at)
            assert at >= 0, (shown, written)
            at += len(piece)
        assert written.startswith(shown.split("…")[0])


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("rendering", ["markdown", "either", "plain"])
def test_a_value_is_quoted_once(locale: str, rendering: Any) -> None:
    speak = Describer("/home/me/app", locale=locale)
    for name, arguments, value in (
        ("glob", {"pattern": "src/**/*.py"}, "src/**/*.py"),
        ("grep", {"pattern": "a *b* c", "path": "src/__init__.py"}, "a *b* c"),
        ("grep", {"pattern": "TODO"}, "TODO"),
        ("web_search", {"query": "what *is* it"}, "what *is* it"),
    ):
        title = escape_title(speak(name, arguments).title, "search", rendering)
        rendered = title.replace("\\", "")
        before, after = rendered.split(value)
        marks = regex.compile(r"[`'‘’“”„«»「」]")
        assert len(marks.findall(before.rstrip()[-2:])) == 1, title
        assert len(marks.findall(after.lstrip()[:2])) == 1, title


def test_a_command_that_fits_stays_as_it_is() -> None:
    assert describe("bash", {"command": "ls; rm x"}).title == "Running `ls; rm x`"


@fewer()
@given(LOOSE | st.text(alphabet="ab ;|&\n'\"\\`$()", max_size=400))
def test_a_title_that_is_set_later_fits_as_all_titles_do(text: str) -> None:
    for title in (fit_title(text), describe("bash", {"command": text}).title):
        assert width(title) <= TITLE_WIDTH
        assert len(title.splitlines()) <= 1
        assert not any(unicodedata.category(char) == "Cc" for char in title)
        assert title.encode() is not None
