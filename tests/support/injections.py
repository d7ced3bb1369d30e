"""Commands with a secret in them and another command inside of the secret, and what bash runs of them.

The judge is bash itself. A marker such as `pwn_17` is no program: where bash would run it, it is written down
instead. So what runs of a command, and what would run of the command as people are shown it, are two sets.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import string
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

LETTERS = string.ascii_letters + string.digits

INJECTIONS = (
    "$(M)", "`M`", "${x:-$(M)}", "$(echo a; M)", "$(M>f)", "${y=`M`}", "$((a[$(M)]))", "<(M)", ">(M)", "<<<$(M)",
    ";M;", "; M ;", "&&M&&:", "&& M && :", "||M||:", "|M|:", "| M", "&M&", "& M &", "|& M", "\nM\n", "\n  M  \n", "\r\nM\n",
    " M ", " M", "M", "/../M", ";{ M; };", ";(M);", "(M)", "\\\nM", "\\nM", "\\$(M)", "\\`M\\`", "\\;M", "\\\\$(M)",
    "{a,M}", ",M,", "{M,b}", '"$(M)"', '";M;"', '" M "', "';M;'", "'$(M)'", "' M '", '\\";M;\\"', "\\';M;\\'", '"`M`"',
    "'\"$(M)\"'", "$'\\n'M", "$IFS$(M)", "$x;M", "!;M", "#\nM", " #\nM\n", "\tM", "\v;M", "\x1b[8m;M", "\u202e;M", "\u200b$(M)",
    "[redacted:token]$(M)", "[redacted:password];M", "]$(M)[", "$(M)@h", "@$(M)", ":$(M):", "=$(M)", "=M", "; a=M b", ";b=1 M",
    "; sid=aB3dE6gH9jK2$(M)", "; HttpOnly; M", "; c=d\nM", "%0aM", "%24(M)", "\nM\n-----END PRIVATE KEY-----", "$( \nM\n)",
    "$(ghp_<T>;M)", "$(curl -H 'Authorization: Bearer <S>';M)", ";PASSWORD=M;", ";export TOKEN='<S>';M", "=`echo;M`",
)  # fmt: skip
"""`M` is a marker, `<S>` another secret, `<T>` the rest of a token."""

SECRETS = (
    "Authorization: Bearer {}", "Authorization: Basic {}", "Authorization: {}", "authorization:Token {}", "Proxy-Authorization: Digest {}",
    "Cookie: sid={}", "Cookie: a=1; sid={}; theme=dark", "Set-Cookie: s={}; Path=/", "X-Api-Key: {}", "x-auth-token:{}",
    "PASSWORD={}", "DB_PASSWORD={}", "API_TOKEN={}", "AWS_SECRET_ACCESS_KEY={}", "export SECRET_KEY={}", "password: {}", "api_key = {}",
    "--password {}", "--password={}", "--token {}", "--api-key={}", "-p{}", "mysql -u root -p{}", "sshpass -p {}", "curl -u me:{}",
    "redis-cli -a {}", "docker login -p {}", "openssl enc -pass pass:{}", "https://me:{}@h.example/", "postgres://u:{}@h/db",
    "https://h.example/?token={}&x=1", "https://h.example/?access_token={}", "jdbc:oracle:thin:u/{}@h", "client_secret={}", "{}",
    "Bearer {}", "ghp_<T>{}", "xoxb-1234567890-<T>{}", "sk_live_<T>{}", "AKIAABCDEFGHIJKLMNOP{}", "eyJhbGciOiJIUzI1NiJ9.<T>.<T>{}",
    "-----BEGIN PRIVATE KEY-----\n<B>\n{}\n<B>\n-----END PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\n{}", "$2b$12$<T>{}",
    "<K>{}", "{}<K>", "<K><K>{}", "password: |\n  {}\n", "private_key: {}", "Private-Lines: 2\n<B>\n{}\n<B>\n", "machine h login l password {}",
)  # fmt: skip
"""`{}` is the value, `<T>` is random, `<B>` is a line of a key, `<K>` is a known value."""

QUOTED_SECRETS = (
    'PASSWORD="{}"', "PASSWORD='{}'", '--password "{}"', "--password '{}'", '--token="{}"', '{{"password":"{}"}}',
    '{{\\"password\\":\\"{}\\"}}', '{{"api_key": "{}", "b": 1}}', "{{'token': '{}'}}", 'password: "{}"', "X=password:\"{}\"",
    'mysql -p"{}"', "curl -u 'me:{}'", 'client_secret: "{}"', "PASSWORD=$'{}'", 'PASSWORD=$"{}"', "PASSWORD=`{}`", 'api_key = "{}"',
    'Authorization: Digest username="a", response="{}"', '<add key="ApiSecret" value="{}"/>', "<password>{}</password>",
)  # fmt: skip

FRAMES = (
    "curl -H {} https://h.example", "{}", ": {}", "echo {}", "{} :", "env {} :", "X={} :", "X={}", "export X={}", "curl -d {} h; :",
    "cd /; curl -H {} h && :", "bash -c {}", "sh -c {}", "eval {}", "eval X={}", "bash -c 'eval '{}", "ssh h {}", "echo {} | sh",
    "bash <<< {}", "cat <<EOF\n{}\nEOF", "bash <<'EOF'\n{}\nEOF", "bash <<EOF\n{}\nEOF", "(curl -H {} h)", "{{ : {}; }}", "x=$(: {})",
    "if : {}; then :; fi", "for i in {}; do :; done", "curl -b {} h | :", "! : {}", "printf %s {} | bash", "case {} in *) :;; esac",
    "sudo -E {}", "env -S {}", "watch {}", ": `: {}`", "true || : {}", "[[ {} ]]", "f() {{ : {}; }}; f", "trap {} EXIT",
)  # fmt: skip
"""`{}` is the text with the secret, in some quotes. `ssh`, `watch` and `sudo` are made to run what they are given."""

REUSES = (
    "PASSWORD={}; $PASSWORD", 'API_TOKEN={} ; "$API_TOKEN" a', "export DB_PASSWORD={};bash -c '$DB_PASSWORD'", "TOKEN={}; eval $TOKEN",
    "SECRET={} bash -c '${{SECRET}}'", "PASSWORD={}; x=$PASSWORD; $x", "PASSWORD={}; x=PASSWORD; ${{!x}}", "TOKEN='{}'; `$TOKEN`",
    "${{PASSWORD:-{}}}", ": ${{API_TOKEN:={}}}; $API_TOKEN", "${{PASSWORD={}}} x", "x=1; ${{x:+{}}}", "set -- --password {}; $2",
    "a=(--token {}); ${{a[1]}}", "f() {{ $2; }}; f --password {}", ": --password {}; $_", "bash -c '$2' _ --password {}",
    "f() {{ shift; \"$@\"; }}; f --password {}", "shopt -s expand_aliases\nalias mypassword={}\nmypassword", "declare TOKEN={}; $TOKEN",
    "PASSWORD={}\xa0{}; $PASSWORD", "PASSWORD=a1b2c3\u2003;{}", "export -n PASSWORD={} && command $PASSWORD",
    "password: |\n{}", "password: |\n {} arg", "env {{PASSWORD=a1b2c3d4,{},x}}", "env PASSWORD=a1b2 {}", "PASSWORD=a1b2c3 {} --token x",
)  # fmt: skip
"""Here the secret itself is run, later or in another word."""

QUOTES: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: f'"{text}"',
    lambda text: f"'{text}'",
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"',
    shlex.quote,
    lambda text: "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'",
    lambda text: '\\"' + text + '\\"',
    lambda text: '"' + text.replace('"', '\\"').replace("$", "\\$").replace("`", "\\`") + '"',
)


@dataclass(frozen=True)
class Case:
    """A call's input, and how the command that is run is taken from it, or from what is shown of it."""

    given: Any
    command_of: Callable[[Any], str]

    @property
    def command(self) -> str:
        return self.command_of(self.given)


def cases(seed: int, count: int, known: Sequence[str] = ()) -> list[Case]:
    """Return generated calls, each with markers of its own."""
    random = Random(seed)
    return [_case(random, number, known) for number in range(count)]


def _case(random: Random, number: int, known: Sequence[str]) -> Case:
    if random.random() < 0.04:
        command = random.choice(REUSES).replace("{}", _marker(number)).format()
    else:
        command = _command(random, number, known)
    if random.random() < 0.1:  # once more around it
        command = random.choice(FRAMES).format(random.choice(QUOTES)(command))
    return _carried(random, command)


def _command(random: Random, number: int, known: Sequence[str]) -> str:
    injection = random.choice(INJECTIONS).replace("M", _marker(number))
    if random.random() < 0.2:
        injection += _word(random) + random.choice(INJECTIONS).replace("M", _marker(number, "b"))
    value = (_word(random) if random.random() < 0.85 else "") + injection
    if random.random() < 0.6:
        value += _word(random)
    secret = random.choice(SECRETS if random.random() < 0.65 else QUOTED_SECRETS)
    before, _, after = secret.replace("{{", "\1").replace("}}", "\2").partition("{}")
    texts = [_filled(random, part, known) for part in (before, value, after)]
    text = "".join(texts).replace("\1", "{").replace("\2", "}")
    text = random.choice(("", "", "", "a ", "x=1 ", "\n", "; ")) + text
    return random.choice(FRAMES).format(random.choice(QUOTES)(text))


def _filled(random: Random, text: str, known: Sequence[str]) -> str:
    made = {"<T>": 36, "<B>": 64, "<S>": 24}
    for form, count in made.items():
        text = text.replace(form, _letters(random, count))
    return text.replace("<K>", random.choice(known) if known else "")


def _marker(number: int, which: str = "a") -> str:
    """Return a word that bash is to run. It ends where what stands behind it begins."""
    return f"pwn_{number}{which}_"


def _letters(random: Random, count: int) -> str:
    return "".join(random.choices(LETTERS, k=count))


def _word(random: Random) -> str:
    shape = random.randrange(6)
    if shape == 0:
        return "".join(random.choices(string.ascii_lowercase, k=random.randint(2, 12)))
    if shape == 1:
        return "".join(random.choices("0123456789abcdef", k=random.choice((8, 16, 32, 64))))
    if shape == 2:
        return "".join(random.choices(LETTERS + "!#%^*-_=+.:/?@~", k=random.randint(6, 24)))
    return _letters(random, random.randint(6, 40))


def _carried(random: Random, command: str) -> Case:
    shape = random.randrange(6)
    if shape == 1:
        return Case(
            {"cmd": ["bash", "-lc", command], "timeout": 5}, lambda told: shlex.join(told["cmd"])
        )
    if shape == 2:
        return Case(
            {"tool": {"calls": [{"input": {"script": command}}]}},
            lambda told: told["tool"]["calls"][0]["input"]["script"],
        )
    if shape == 3:
        return Case(
            {"arguments": json.dumps({"command": command})},
            lambda told: json.loads(told["arguments"])["command"],
        )
    if shape == 4:
        return Case(command, lambda told: told)
    if shape == 5:
        return Case(
            {"argv": ["env", "--", *_split(command)]}, lambda told: shlex.join(told["argv"])
        )
    return Case({"command": command, "description": "Fetch it"}, lambda told: told["command"])


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return ["bash", "-c", command]


_STAGE = r"""
set -f  # in a directory with a file `f`, the mark `[redacted:x]` is no word, but a pattern
export PATH=/nonexistent FUNCNEST=8 SHELLOPTS
command_not_found_handle() { [[ ${1##*/} =~ ^pwn_[0-9]+[ab]_ ]] && printf '%s\n' "${BASH_REMATCH[0]}" >&9; return 0; }
bash() { /bin/bash "$@"; }
sh() { /bin/bash "$@"; }
ssh() { shift; /bin/bash -c "$*"; }
watch() { /bin/bash -c "$*"; }
sudo() { shift; "$@"; }
cat() { /bin/cat "$@"; }
env() {
  [[ $1 == -- ]] && shift
  [[ $1 == -S ]] && { shift; eval "$@"; return; }
  while [[ $1 == *=* ]]; do shift; done
  "$@"
}
export -f command_not_found_handle bash sh ssh watch sudo cat env
while IFS= read -r -d '' command; do
  ( eval "$command" ) </dev/null >/dev/null 2>&1
done
wait
"""


def runs(commands: Sequence[str], directory: Path) -> set[str]:
    """Return the markers that bash would run of these commands. All else is a stub, or not found."""
    found: set[str] = set()
    for start in range(0, len(commands), 250):
        found |= _run(commands[start : start + 250], directory)
    return found


def _run(commands: Sequence[str], directory: Path) -> set[str]:
    given = "".join(command.replace("\0", "") + "\0" for command in commands)
    shell = subprocess.Popen(
        ["/bin/bash", "-c", f"exec 9>&1\n{_STAGE}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=directory,
        env={},
        start_new_session=True,
    )
    try:  # its output ends when the last process that a command left behind has ended
        found, _ = shell.communicate(given.encode("utf-8", "replace"), timeout=300)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    return set(found.decode().split())
