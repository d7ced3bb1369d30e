"""HTML as readable text: what is kept, what is left out, and that no page takes for ever."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.tools.web.html_reader import readable, without_unparsed
from tests.support.sizes import sized


def text(html: str, base: str = "https://example.com/a/b") -> str:
    return readable(html, base).text


def test_title_headings_and_paragraphs() -> None:
    page = readable(
        "<!doctype html><html><head><title>A &amp; B\n page</title></head>"
        "<body><h1>Hello  <em>World</em></h1><p>First\n one.<p>Second<br>line.<h3>Deeper</h3>Text"
    )
    assert page.title == "A & B page"
    assert page.text == "# Hello World\n\nFirst one.\n\nSecond\nline.\n\n### Deeper\n\nText"


def test_links_are_whole_and_only_where_they_lead_somewhere() -> None:
    assert text('<a href="/x?q=1">here</a>, <a href=c>there</a>') == (
        "[here](https://example.com/x?q=1), [there](https://example.com/a/c)"
    )
    assert text('<a href="#top">up</a> <a href="javascript:x()">js</a> <a>none</a>') == "up js none"
    assert text("<a href='https://a.b/'>https://a.b/</a>") == "<https://a.b/>"
    assert text('see<a href="/x"> here </a>now') == "see [here](https://example.com/x) now"
    assert text('<a href="/x"><img src=i.png alt=""></a>text') == "text"
    assert text("<base href='https://other.org/d/'><a href=x>x</a>") == "[x](https://other.org/d/x)"
    assert text('<a href="http://[broken">x</a>') == "x"


def test_a_link_around_blocks_keeps_their_text() -> None:
    assert "Card" in text('<a href="/x"><h2>Card</h2><p>More</p></a>')


def test_lists_nest_and_count() -> None:
    html = "Before<ul><li>one<li>two<ul><li>inner</li></ul><li>three</ul>after"
    assert text(html) == "Before\n\n- one\n- two\n  - inner\n- three\n\nafter"
    assert text("<ol start=3><li>c</li><li>d</li></ol>") == "3. c\n4. d"
    assert text("<li>alone") == "- alone"


def test_code_keeps_its_white_space() -> None:
    html = '<p>Use <code>a  b</code></p><pre><code class="language-py">def f():\n    pass\n</code></pre>'
    assert text(html) == "Use `a b`\n\n```py\ndef f():\n    pass\n```"
    assert text("<pre>```\nx</pre>") == "````\n```\nx\n````"
    assert text("<code>a`b</code>") == "``a`b``"
    assert text("<pre>a\n\n  <b>b</b><br>c</pre>") == "```\na\n\n  b\nc\n```"


def test_quotes_are_marked_on_every_line() -> None:
    html = "a<blockquote><p>b</p><p>c<br>d</p></blockquote>e"
    assert text(html) == "a\n\n> b\n>\n> c\n> d\n\ne"


def test_rows_of_tables_become_lines() -> None:
    html = "Before<table><tr><th>A<th>B<tr><td>1<td><a href=/x>x</a>\n<tr><td><td>2</table>after"
    assert text(html) == "Before\n\nA | B\n1 | [x](https://example.com/x)\n| 2\n\nafter"


def test_a_table_for_the_looks_is_taken_apart() -> None:
    html = (
        "<table><tr><td>menu</td><td><table><tr><td>a<td>b<tr><td>c<td>d</table></td></tr></table>"
    )
    assert text(html) == "menu |\n\na | b\nc | d"
    assert text("<table><tr><td><p>one</p><td><p>two</table>") == "one\n\ntwo"


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>if (a < b) { '<p>no</p>' }</script>",
        "<style>p { x: 'no' }</style>",
        "<nav><ul><li>no</ul></nav>",
        "<!-- no -->",
        "<!-- no > no -->",
        "<template><p>no</p></template>",
        "<svg><text>no</text></svg>",
        "<div hidden>no</div>",
        '<div style="color: red; DISPLAY : none">no<div>no</div></div>',
        '<span aria-hidden="true">no</span>',
        "<select><option>no</select>",
        "<textarea><p>no</textarea>",
        "<![CDATA[no]]>",
        "<![if no]>",
        "<?php no ?>",
    ],
)
def test_what_is_not_for_reading_is_left_out(hidden: str) -> None:
    assert text(f"<p>before</p>{hidden}<p>after</p>") == "before\n\nafter"


def test_a_page_that_is_all_navigation_is_shown() -> None:
    assert text("<nav><a href=/x>Home</a>") == "[Home](https://example.com/x)"


def test_characters_are_decoded_once() -> None:
    assert text("&lt;b&gt; &amp;amp; &eacute;&#x20AC; a&nbsp;b & c &unknown;") == (
        "<b> &amp; é€ a b & c &unknown;"
    )


@pytest.mark.parametrize(
    "cut", ["<p>text<", "<p>text<a hre", "<p>text</", "<p>text<!--", "<p>text&am"]
)
def test_a_page_that_is_cut_off_keeps_what_came(cut: str) -> None:
    assert text(cut).startswith("text")


def test_a_tag_that_never_ends_does_not_swallow_the_page() -> None:
    assert "second" in text('<p>first</p><a href="x <p>second</p>')


def test_the_limit_is_kept_and_said() -> None:
    page = readable("<p>word " * 10_000, limit=1000)
    assert page.truncated
    assert len(page.text) <= 1000
    assert not readable("<p>word", limit=1000).truncated


def test_an_unclosed_script_or_comment_takes_the_rest_as_in_a_browser() -> None:
    assert without_unparsed("a<script>b") == "a"
    assert without_unparsed("a<!--b") == "a"
    assert without_unparsed("a<!-->b") == "ab"
    assert without_unparsed("a<SCRIPT>b</script >c") == "ac"


SIZE = sized(400_000, 120_000)
HOSTILE = {
    "tags that never end": "<a",
    "comments that never end": "<!--",
    "open elements": "<div>",
    "lists": "<ul><li>x",
    "quotes": "<blockquote>x",
    "tables": "<table><tr><td>x",
    "cells": "<td>x",
    "code": "<pre>x<code>x",
    "links": "<a href=/x>y",
    "quotation marks": '<a "',
    "marked sections": "<![x",
    "entities": "&",
    "ends": "</ul></blockquote></table></pre></code></a>",
    "quotes in lists": "<ul><blockquote>",
    "breaks": "<br>",
    "backticks": "`<code>`</code>",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_page_takes_for_ever(piece: str) -> None:
    """Work that grew with the square of the size would take several times as long, each time."""
    html = piece * (SIZE // len(piece))

    def seconds() -> float:
        begin = time.thread_time()
        readable(html, "https://example.com/")
        return time.thread_time() - begin

    assert any(seconds() < SIZE / 50_000 for _ in range(3))


WORDS = """<p > </p> " ' = <li> <h2> </ul> <table> </table> <tr> <th> <svg/> <title> </title> text é
    </div> <img/alt=x> <hr> <br/> &#x0; <base/href=//[> <ol/start=x> <div/hidden>"""
PIECES = st.sampled_from([*HOSTILE.values(), *WORDS.split(), " ", "\n", "\x00"])


@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_page_can_be_read(html: str) -> None:
    page = readable(html, "https://example.com/", limit=500)
    assert len(page.text) <= 500
    assert "\n\n\n" not in page.text or "<pre" in html
