"""Streams: a secret in any number of pieces is found, little is held, nothing is lost."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.redaction.redactor import Marks, Redactor
from callsheet.redaction.rules import fill
from callsheet.redaction.stream import CONTEXT, HOLD
from tests.support.sizes import sized
from tests.unit.redaction.test_redactor import KNOWING, fragments, texts

ALL = Redactor()
spaced = st.lists(fragments, max_size=8).map(" \n ".join)
TOKEN = fill("ghp_{alnum:36}").encode()
LENGTH = sized(100_000, 30_000)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def fed(redactor: Redactor, chunks: list[bytes]) -> tuple[bytes, int]:
    stream = redactor.stream()
    out = b"".join(map(stream.feed, chunks)) + stream.finish()
    assert stream.held == 0
    return out, stream.count


@given(spaced, st.lists(st.integers(0, 10_000), max_size=6))
def test_a_stream_gives_what_the_whole_text_gives(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "surrogatepass")
    clean, count = KNOWING.text(text)
    assert fed(KNOWING, pieces_of(data, cuts)) == (clean.encode("utf-8", "surrogatepass"), count)


@given(texts, st.lists(st.integers(0, 10_000), max_size=6))
def test_a_stream_loses_nothing_and_shows_no_key_whatever_it_is_glued_to(
    text: str, cuts: list[int]
) -> None:
    token = fill("ghp_{hex:36}")  # none of the fragments
    data = f"{text} {token} {text}".encode("utf-8", "surrogatepass")
    out, count = fed(KNOWING, pieces_of(data, cuts))
    assert token.encode() not in out
    assert count >= 1
    if text.isalpha():
        assert out.startswith(text.encode())


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_bytes_that_are_not_text_pass(chunks: list[bytes]) -> None:
    out, count = fed(ALL, chunks)
    if not count:
        assert out == b"".join(chunks)


def test_every_byte_passes_beside_a_secret() -> None:
    data = bytes(range(256)) + b" " + TOKEN + b" " + bytes(range(256))
    expected = data.replace(TOKEN, ALL.text(TOKEN.decode())[0].encode())
    assert fed(ALL, [bytes([byte]) for byte in data]) == (expected, 1)


@pytest.mark.parametrize(
    "output",
    [
        b"Password: ", b"Continue? [y/N] ", b"user@host:~$ ", b"Enter passphrase for key '/home/me/.ssh/id': ", b"line\n",
        b"12 passed in 0.3 s\n", b"progress 50%\r", b"login: ", b"mysql> ", b">>> ", b"curl -u me: ",
        b"token = ", b"https://example.org/ ", "文".encode(), b"", b"\xff\xfe",
    ],
)  # fmt: skip
def test_prompts_and_lines_are_passed_on_at_once(output: bytes) -> None:
    stream = ALL.stream()
    assert stream.feed(output) == output
    assert stream.held == 0


@pytest.mark.parametrize(
    "word", ["all", "\x1b[32mok\x1b[0m", "é", "12..3", "http://localhost:8000"]
)
def test_the_last_word_waits_until_it_ends(word: str) -> None:
    stream, data = ALL.stream(), word.encode()
    assert (stream.feed(b"that is " + data), stream.held) == (b"that is ", len(data))
    assert (stream.feed(b" and"), stream.held) == (data + b" ", 3)


def test_a_text_without_blanks_is_shown_as_it_comes() -> None:
    stream = ALL.stream()
    assert b"".join(stream.feed(letter.encode()) for letter in "这是一段没有空格的文字") == (
        "这是一段没有空格的文字".encode()
    )


def test_only_the_word_of_the_secret_waits_not_what_stands_before_it() -> None:
    stream = ALL.stream()
    assert stream.feed(b"export API_KEY=Fake7Dum") == b"export "
    assert stream.held == 16
    assert stream.feed(b"my3Sample") == b""
    out = stream.feed(b"\ndone\n")
    assert out.startswith(b"API_KEY=[redacted:")
    assert out.endswith(b"]\ndone\n")
    assert stream.held == 0


def test_a_name_counts_also_when_its_value_comes_much_later() -> None:
    redactor = Redactor(marks=Marks())
    chunks = [b'{"pass', b"word", b'"', b":", b" ", b'"', b"hunt", b"er2", b'"', b"}"]
    assert fed(redactor, chunks)[0] == b'{"password": "[redacted:password]"}'
    header = [
        b"curl -H 'Authorization",
        b": Bearer",
        b" ",
        b"abc",
        b"123",
        b"' https://example.org",
    ]
    assert fed(redactor, header)[0] == (
        b"curl -H 'Authorization: Bearer [redacted:authorization]' https://example.org"
    )


def test_a_pause_can_show_all_that_is_held() -> None:
    stream = Redactor(marks=Marks()).stream()
    assert stream.feed(b"at http://localhost:8000") == b"at "
    assert (stream.held, stream.flush(), stream.held) == (21, b"http://localhost:8000", 0)
    assert stream.feed(b"\n") == b"\n"
    assert stream.count == 0


def test_a_pause_does_not_show_what_is_a_secret_already() -> None:
    stream = Redactor(marks=Marks()).stream()
    out = stream.feed(b"token " + TOKEN)
    assert out + stream.flush() == b"token [redacted:github-token]"
    assert stream.feed(b" and so on\n") == b" and so on\n"
    assert stream.count == 1


def test_a_pause_inside_a_token_marks_it_once_and_swallows_its_rest() -> None:
    for cut in range(8, len(TOKEN)):
        stream = Redactor(marks=Marks()).stream()
        out = stream.feed(b"key " + TOKEN[:cut]) + stream.flush()
        assert out == b"key [redacted:github-token]"
        out += stream.feed(TOKEN[cut : cut + 2]) + stream.flush() + stream.feed(TOKEN[cut + 2 :])
        out += stream.feed(b"\nnext\n") + stream.finish()
        assert (out, stream.count) == (b"key [redacted:github-token]\nnext\n", 1)


@pytest.mark.parametrize(
    "begun",
    ["ghp_ab1C", "AKIAQWER", "sk-Ab1x", "sk-proj1Ab", "eyJhbGci", "xoxb-123", "glpat-abcd", "npm_aB3d"],
)  # fmt: skip
def test_a_pause_never_shows_four_characters_after_a_fixed_beginning(begun: str) -> None:
    stream = ALL.stream()
    out = stream.feed(b"is " + begun.encode()) + stream.flush()
    assert out.startswith(b"is [redacted:")
    assert stream.feed(b"Rest1 and more\n") + stream.finish() == b" and more\n"
    assert stream.count == 1


@pytest.mark.parametrize("word", ["pattern", "ghp_", "ghp_abc", "sk-learn", "SKIPPED", "eyJ"])
def test_a_pause_shows_words_and_bare_beginnings(word: str) -> None:
    stream = ALL.stream()
    assert stream.feed(word.encode()) + stream.flush() == word.encode()


@pytest.mark.parametrize(
    ("first", "rest", "shown"),
    [
        ("API_KEY=Fake7Dummy3", "Sample9\nok", "API_KEY=[redacted:api-key]\nok"),
        ("API_KEY=Fake7Dummy3", "Sample9; ls", "API_KEY=[redacted:api-key]; ls"),
        ('{"password": "hunter', '2 x", "a": 1}', '{"password": "[redacted:password]", "a": 1}'),
        ("Authorization: Bearer abc1", "23\nok", "Authorization: Bearer [redacted:authorization]\nok"),
    ],
)  # fmt: skip
def test_a_pause_inside_a_value_gives_one_mark(first: str, rest: str, shown: str) -> None:
    stream = Redactor(marks=Marks()).stream()
    out = stream.feed(first.encode()) + stream.flush() + stream.feed(rest.encode())
    assert (out + stream.finish(), stream.count) == (shown.encode(), 1)


def test_a_row_of_dots_after_a_name_is_shown_as_it_comes() -> None:
    stream = ALL.stream()
    out = stream.feed(b"Testing api_key: ")
    for _ in range(10):
        out += stream.feed(b".")
    assert out == b"Testing api_key: .........."


@pytest.mark.parametrize(
    "unit",
    [
        b"token=", b"api_key=$(", b'token="\\', b"password: a ", b"eyJ", b"API_KEY=abc123 ", b"ghp_", b"https://a:",
        b"--token ", b"token=\n", b"mysql -p", b"Authorization: ", b"-----BEGIN ", b"password='a", b"curl -u ",
    ],
)  # fmt: skip
def test_the_work_for_a_stream_grows_with_its_size_only(unit: bytes) -> None:
    redactor = Redactor()
    for size in (200, 1000):
        data = unit * (LENGTH // len(unit))
        stream, before = redactor.stream(), redactor._scanner.work
        for n in range(0, len(data), size):
            stream.feed(data[n : n + size])
        stream.finish()
        places = redactor._scanner.work - before
        assert places < 8 * len(data) / len(unit) * max(1, 400 / size), (size, places)


def test_what_a_stream_hides_because_there_is_too_much_to_look_at_has_a_mark() -> None:
    data = b"password=hunter22 and more words\n" * 400
    out, count = fed(Redactor(marks=Marks()), [data[n : n + 20] for n in range(0, len(data), 20)])
    assert b"hunter22" not in out
    assert out.count(b"[redacted:unsearched") == 1, "the rest is hidden, and says so"
    assert count == out.count(b"[redacted:")


def test_a_pause_after_the_beginning_of_a_literal_shows_nothing_secret() -> None:
    stream = ALL.stream()
    assert stream.feed(b"see gh") + stream.flush() == b"see gh"
    out = stream.feed(b"p_" + TOKEN[4:] + b" ok") + stream.finish()
    assert TOKEN[6:14] not in out
    assert out.endswith(b" ok")


def test_flushing_and_finishing_an_idle_stream_gives_nothing() -> None:
    stream = ALL.stream()
    assert (stream.flush(), stream.finish(), stream.finish()) == (b"", b"", b"")


def private_key(lines: int) -> bytes:
    letters = random.Random(lines)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    body = ["".join(letters.choices(alphabet, k=64)) for _ in range(lines)]
    kind = "RSA PRIVATE" + " KEY"
    return "\n".join([f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"]).encode()


@pytest.mark.parametrize("lines", [1, 25, 50, 200])
def test_long_private_keys_are_found_whole(lines: int) -> None:
    key = private_key(lines)
    data = b"before\n" + key + b"\nafter\n"
    for size in (1, 7, 64, 1000, 100_000):
        chunks = [data[n : n + size] for n in range(0, len(data), size)]
        if len(chunks) < 4000:
            assert (
                fed(Redactor(marks=Marks()), chunks)[0]
                == b"before\n[redacted:private-key]\nafter\n"
            )


@pytest.mark.parametrize("size", [100, 1000, 5000, 50_000])
def test_more_than_the_limit_is_never_held_and_a_secret_never_shown(size: int) -> None:
    secrets = {
        "a key far too long": private_key(3000),
        "a token far too long": b"glc_" + b"Fake7Dummy3" * 9000,
        "a password far too long": b'"password": "' + b"x7" * 4000 + b'"',
    }
    for name, secret in secrets.items():
        data = b"before\n" + secret + b"\nafter\n"
        stream = Redactor(marks=Marks()).stream()
        parts: list[bytes] = []
        for n in range(0, len(data), size):
            parts.append(stream.feed(data[n : n + size]))
            assert stream.held <= HOLD, name
            assert len(stream._data) <= HOLD + CONTEXT
        out = b"".join(parts) + stream.finish()
        assert len(out) < 200, name
        assert out.startswith(b"before\n")
        assert out.endswith(b"\nafter\n")


@pytest.mark.parametrize(
    "filler",
    [b"x", b"ab1", b"eyJ", b"://a:", b"password=", b"[redacted:", b"-----BEGIN ", b"sk-", b"A"],
)
def test_what_could_be_a_secret_for_ever_is_passed_on_in_the_end(filler: bytes) -> None:
    data = (filler * 40_000)[:60_000]
    stream = ALL.stream()
    out = b""
    for n in range(0, len(data), 4000):
        out += stream.feed(data[n : n + 4000])
        assert stream.held <= HOLD
    out += stream.finish()
    if not stream.count:
        assert out == data


def test_streams_know_registered_values_of_any_shape() -> None:
    secret = "two words\nand a second line, é"
    redactor = Redactor(known={"ODD": secret}, marks=Marks())
    data = f"a {secret} b".encode()
    for cut in range(len(data)):
        for other in range(cut, len(data), 3):
            assert fed(redactor, pieces_of(data, [cut, other]))[0] == b"a [redacted:ODD] b"


def test_many_streams_at_once_do_not_mix() -> None:
    streams = [ALL.stream() for _ in range(3)]
    outs = [b"", b"", b""]
    for n in range(len(TOKEN)):
        for index, stream in enumerate(streams):
            outs[index] += stream.feed(TOKEN[n : n + 1] if index else b"x ")
    outs = [out + stream.finish() for out, stream in zip(outs, streams, strict=True)]
    assert outs[0] == b"x " * len(TOKEN)
    assert outs[1] == outs[2]
    assert [stream.count for stream in streams] == [0, 1, 1]


@pytest.mark.parametrize(
    "word", ["key-value", "api-server", "sk-learn", "pattern", "key-", "api-v"]
)
def test_a_word_that_begins_like_a_token_is_shown_at_a_pause(word: str) -> None:
    stream = Redactor().stream()
    assert stream.feed(b"the " + word.encode()) + stream.flush() == b"the " + word.encode()
