"""An agent is put into an editor's settings, and everything else in them stays, byte for byte."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.cli.editors import BadSettingsFile, parsed, with_entry

ENTRY = {"command": "callsheet", "args": ["tap", "--", "kimi", "acp"]}
COMMENTED = """\
// mine
{
  "theme": "One /* no comment */", // nice
  /* the agents
     that I use */
  "agent_servers": {
    "Old": { "command": "old", "args": ["}", "\\"{"] }, // still good
  },
  "list": [1, 2,],
}
"""

GAPS = st.sampled_from(["", " ", "\n", "// a {comment}\n", '/* "another" , */', "\t"])
KEYS = st.text(max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def test_comments_and_other_settings_stay() -> None:
    after = with_entry(COMMENTED, "Kimi, tapped", ENTRY)
    assert parsed(after) == {
        "theme": "One /* no comment */",
        "agent_servers": {
            "Kimi, tapped": ENTRY,
            "Old": {"command": "old", "args": ["}", '"{']},
        },
        "list": [1, 2],
    }
    rest = iter(after.splitlines())
    assert all(line in rest for line in COMMENTED.splitlines())  # each, and in their order


def test_an_entry_of_the_same_name_is_replaced() -> None:
    after = with_entry(with_entry(COMMENTED, "Old", {"command": "new"}), "Old", ENTRY)
    assert parsed(after)["agent_servers"] == {"Old": ENTRY}  # pyright: ignore[reportIndexIssue]
    assert "// still good" in after


@pytest.mark.parametrize("empty", ["", " \n", "{}", "{ }", "// nothing yet\n{\n}\n"])
def test_settings_that_are_empty_get_their_first_agent(empty: str) -> None:
    after = with_entry(empty, "Callsheet", ENTRY)
    assert parsed(after) == {"agent_servers": {"Callsheet": ENTRY}}
    assert json.loads(re.sub("//.*", "", after)) == parsed(after)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "no object at its top"),
        ('{"agent_servers": []}', "agent_servers is not an object"),
        ('{"a": 1', "not JSON"),
        ("{'a': 1}", "not JSON"),
        ('{"a": "open\n}', "line 1 is not JSON"),
        ('{"a" 1}', "not JSON"),
    ],
)
def test_what_is_no_settings_file_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadSettingsFile, match=re.escape(reason)):
        with_entry(text, "x", ENTRY)


@given(st.data())
def test_nothing_else_changes_whatever_the_settings_are(data: st.DataObject) -> None:
    """Any JSON, with comments and commas anywhere: afterwards it says the same, and has the agent."""
    before = data.draw(st.dictionaries(KEYS, VALUES, max_size=4))
    servers = data.draw(st.none() | st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
    if servers is not None:
        before["agent_servers"] = servers
    name = data.draw(st.sampled_from(["a", "b", "new", 'quo"te']))
    text = commented(before, data)
    after = with_entry(text, name, ENTRY)
    assert parsed(after) == {**before, "agent_servers": {**(servers or {}), name: ENTRY}}


def commented(value: object, data: st.DataObject) -> str:
    """Return a value as JSON with gaps and comments between its tokens, and commas behind its items."""

    def gap() -> str:
        return data.draw(GAPS)

    if isinstance(value, dict):
        items = [
            f"{gap()}{json.dumps(key)}{gap()}:{commented(one, data)}" for key, one in value.items()
        ]
    elif isinstance(value, list):
        items = [commented(one, data) for one in value]
    else:
        return f"{gap()}{json.dumps(value)}{gap()}"
    last = "," if items and data.draw(st.booleans()) else ""
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return f"{gap()}{opened}{','.join(items)}{last}{gap()}{closed}{gap()}"
