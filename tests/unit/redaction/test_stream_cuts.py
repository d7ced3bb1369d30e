"""A stream cut anywhere gives what the whole text gives: made-up secrets, with all that may be escaped in them."""

from __future__ import annotations

import random

import pytest

from callsheet.redaction.redactor import Marks, Redactor
from tests.support.sizes import sized

ALL = Redactor(known={"WORD": "xyzzy-plugh-7é"}, marks=Marks())
LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
ODD = ['\\"', "\\\\", "\\u0041", "%22", "é", "→"]
TEXTS = sized(60, 3)
CONTEXTS = [
    '"password": "{}"', '{{"a":1,"password":"{}","b":2}}', "password = '{}'", "DB_PASSWORD={}", "export API_KEY={}\n", 'api_key: "{}"\n',
    "  password: {}\n", "Authorization: Bearer {}\r\nHost: x\r\n", "curl -H 'Authorization: Bearer {}' http://x", "--password {} run",
    '--token "{}" run', "https://me:{}@host/x", "?token={}&a=1", "Cookie: sid={}; a=b\r\n", '{{\\"secret\\": \\"{}\\"}}',
    '{{\\\\\\"secret\\\\\\": \\\\\\"{}\\\\\\"}}', "\x1b[32mpassword\x1b[0m=\x1b[1m{}\x1b[0m\n", "password%3D{}%26x", "12→password: {}\n13→x\n",
    "+token: '{}'\n", "mysql -u root -p{} db", "key {} end", "const authToken = `{}`;", 'password: str = "{}"\n', "config['secret_key'] = '{}'\n",
    "PASSWORD='{}' ls\n", "xyzzy-plugh-7é{}",
]  # fmt: skip


def secret(chance: random.Random) -> str:
    if chance.random() < 0.25:
        return chance.choice(["ghp_", "npm_"]) + "".join(chance.choices(LETTERS, k=36))
    made = chance.choices(LETTERS, k=chance.randrange(6, 30))
    for _ in range(chance.randrange(3)):
        made.insert(chance.randrange(1, len(made)), chance.choice(ODD))
    return "".join(made) + "7"


@pytest.mark.parametrize("context", CONTEXTS)
def test_any_cut_gives_what_the_whole_text_gives(context: str) -> None:
    chance = random.Random(context)
    for _ in range(TEXTS):
        before = chance.choice(["", "x = 1\n", "é before ", "line\r\n", '{"log": "aaa",\n'])
        after = chance.choice(["", " after\n", "\nnext line\n", "\r\n"])
        text = before + context.format(secret(chance)) + after
        data, whole = text.encode(), ALL.text(text)[0].encode()
        for cut in range(len(data) + 1):
            first, second = sorted((cut, chance.choice([cut, chance.randrange(len(data) + 1)])))
            stream = ALL.stream()
            pieces = (data[:first], data[first:second], data[second:])
            out = b"".join(map(stream.feed, pieces)) + stream.finish()
            assert out == whole, pieces
