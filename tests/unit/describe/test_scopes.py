"""What "always" may mean of a command: never more than a program with options that are known to be harmless.

The oracle is apart from the code: `dangerous_commands` was written from the programs' manuals, and most of it is
proven by running it. What is generated puts those dangers into harmless commands, in all the ways that options
can be written.
"""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.describe.shell.programs import programs, scope_of_command
from tests.support.dangerous_commands import DANGERS, PROVEN, sandbox
from tests.support.sizes import sized

SEED = 17_003
CASES = sized(10_000, 2_000)
ROWS = [row for listed in programs().values() for _, row in listed]
EXAMPLES = sorted({one for row in ROWS if row.always for one in row.examples})
ONLY_HARMLESS = sorted({one for row in ROWS if not row.always for one in row.examples})
PROJECTS = ("pytest", "python", "npm", "yarn", "pnpm", "cargo", "go", "make", "ruff", "mypy", "tsc")
"""Programs that run what a project says, or fill caches."""


@pytest.mark.parametrize(
    ("command", "scope"),
    [
        ("git status", "git status"),
        ("git status -s src", "git status"),
        ("  git   status  ", "git status"),
        ("'git' \"status\"", "git status"),
        ("git status # what is new", "git status"),
        ("pytest", "pytest"),
        ("pytest -q tests/test_a.py -k 'a or b'", "pytest"),
        ("ls -la", "ls"),
        ("python -m pytest -q", "python -m pytest"),
        ("npm test", "npm test"),
        ("npm run lint", "npm run lint"),
        ("git stash list", "git stash list"),
        ("git log --oneline -n 3", "git log"),
        ("git log -5", "git log"),
        ("grep -rn 'one; two && three > four' src", "grep"),
        ("make", "make"),
        ("make test", "make test"),
    ],
)
def test_harmless_commands_are_known_by_program_and_subcommand(command: str, scope: str) -> None:
    assert scope_of_command(command) == scope


@pytest.mark.parametrize(
    "command",
    [
        "git status && rm -rf /",
        "git log 2>/dev/null",
        "(git status)",
        "{ git status; }",
        "! git status",
        "git $SUB",
        "$PROGRAM status",
        "git stat*",
        "git {status,push}",
        "git",
        "git commit -m x",
        "git push",
        "./scripts/build.sh",
        "/bin/ls",
        "docker compose up",
        "printf x",
        "test -f a",
        "npm run",
        "npm run --prefix x",
        "make a b",
        "git status 'not ended",
        "",
        "   ",
        "# nothing",
        "git\0status",
        "cat " + "x" * 5000,
    ],
)
def test_others_are_only_what_they_are(command: str) -> None:
    assert scope_of_command(command) is None


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_table_has_the_scope_of_its_row(example: str) -> None:
    scope = scope_of_command(example)
    assert scope is not None
    assert example.startswith(scope)


@pytest.mark.parametrize("example", ONLY_HARMLESS)
def test_what_is_only_known_to_read_is_never_always_allowed(example: str) -> None:
    assert scope_of_command(example) is None


def test_no_dangerous_command_is_covered_by_what_was_allowed_before() -> None:
    assert len(DANGERS) >= 300
    for first, second in DANGERS:
        scope = scope_of_command(second)
        assert scope is None or scope != scope_of_command(first), (first, second)


def test_no_danger_hides_in_a_harmless_command() -> None:
    rng = random.Random(SEED)
    dangers = simple_dangers()
    for number in range(CASES):
        example, tokens = rng.choice(dangers)
        made = mutated(rng, example, list(tokens))
        scope = scope_of_command(made)
        assert scope is None or scope != scope_of_command(example), (SEED, number, made)


def simple_dangers() -> list[tuple[str, tuple[str, ...]]]:
    """Return harmless commands, each with the words that make it dangerous."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for first, second in DANGERS:
        words = _words(second)
        scope = scope_of_command(first)
        if words is None or scope is None:
            continue
        size = len(scope.split())
        rest = list(words)
        for word in shlex.split(first):
            if word in rest:
                rest.remove(word)
        alike = [one for one in EXAMPLES if scope_of_command(one) == scope]
        if rest and words[:size] == scope.split():
            found += [(example, tuple(rest)) for example in (first, *alike)]
    assert len(found) >= 200
    return found


def _words(command: str) -> list[str] | None:
    """Return the words of a command that is a single one, as the shell passes them on."""
    return None if set(command) & set(";|&<>()$`\n{}*~=@") - set("=@~") else shlex.split(command)


def mutated(rng: random.Random, example: str, tokens: list[str]) -> str:
    """Return a command with dangerous words in it, written in one of the ways that programs understand."""
    size = len((scope_of_command(example) or "").split())
    head, rest = shlex.split(example)[:size], shlex.split(example)[size:]
    option = tokens[0]
    name, equals, value = option.partition("=")
    way = rng.randrange(6)
    if way == 0 and name.startswith("--") and len(name) > 4:
        short = name[: rng.randrange(4, len(name))]
        tokens[0] = f"{short}={value}" if equals else short
    elif way == 1 and equals:
        tokens[:1] = [name, value]
    elif way == 2 and len(tokens) > 1 and option.startswith("--"):
        tokens[:2] = [f"{option}={tokens[1]}"]
    elif way == 3 and len(option) == 2 and option[0] == "-":
        tokens[0] = f"-{rng.choice('nrviqs')}{option[1]}"
    elif way == 4 and len(option) == 2 and option[0] == "-" and len(tokens) > 1:
        tokens[:2] = [f"{option}{tokens[1]}"]
    is_option = tokens[0].startswith("-")
    at = rng.randrange(len(rest) + 1) if is_option else len(rest)
    if at and is_option and rest[at - 1].startswith("-") and rest[at - 1] != "--":
        at = 0  # behind an option, a word may be its value
    words = [*head, *rest[:at], *tokens, *rest[at:]]
    return rng.choice((" ", "  ", "\t", " \\\n")).join(quoted(rng, word) for word in words)


def quoted(rng: random.Random, word: str) -> str:
    """Return a word as it may stand in a shell."""
    way = rng.randrange(4)
    if way == 0 and "'" not in word:
        return f"'{word}'"
    if way == 1 and not set(word) & set('"\\$`!'):
        return f'"{word}"'
    if way == 2 and word.isalnum() and word:
        return f"{word[0]}''{word[1:]}"
    return shlex.quote(word)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    directory = tmp_path_factory.mktemp("sandbox")
    return directory, sandbox(directory)


@pytest.mark.parametrize(
    "command", [second for _, second in PROVEN][:: sized(1, 11)], ids=lambda one: one[:40]
)
def test_what_is_called_dangerous_is(
    command: str, place: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    made, env = place
    here = tmp_path / "here"
    shutil.copytree(made, here, symlinks=True)
    evil = here / "evil"
    evil.write_text(evil.read_text().replace(str(made), str(here)))
    run(command, here, {**env, "HOME": str(here)})
    programs = {word for word in command.replace(";", " ").split() if word.isalpha()}
    if not any(here.glob("pwned*")):
        assert any(shutil.which(word) is None for word in programs & NEEDED), command


NEEDED = {
    "git",
    "sort",
    "split",
    "tar",
    "zip",
    "gcc",
    "openssl",
    "npm",
    "make",
    "curl",
    "perl",
    "flock",
}
"""Programs that may not be there."""


@pytest.mark.parametrize("example", EXAMPLES + ONLY_HARMLESS)
def test_a_harmless_command_leaves_everything_as_it_was(
    example: str, place: tuple[Path, dict[str, str]]
) -> None:
    here, env = place
    program = example.split()[0]
    if program in PROJECTS or shutil.which(program) is None:
        return
    before = contents(here)
    run(example, here, env)
    assert contents(here) == before


def run(command: str, directory: Path, env: dict[str, str]) -> None:
    subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def contents(directory: Path) -> dict[str, bytes]:
    """Return all files. Git's index is refreshed by looking at it."""
    return {
        str(path): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "index"
    }


@given(
    st.sampled_from(["git status", "pytest", "npm run lint", "python -m pytest", "make test"]),
    st.sampled_from([";", "&&", "||", "|", "&", "\n", ">", ">>", "<", "$(", "`", "<(", "2>"]),
    st.text(alphabet="abc \t", max_size=4),
)
def test_nothing_that_is_put_behind_a_command_is_always_allowed_with_it(
    command: str, operator: str, between: str
) -> None:
    assert scope_of_command(f"{command}{between}{operator} rm x") is None


@given(st.text(alphabet="git stau&|;<>$`(){}'\"\\\n #=*-", max_size=24))
def test_any_text_has_a_scope_that_is_its_beginning_or_none(text: str) -> None:
    scope = scope_of_command(text)
    if scope is not None:
        assert scope.strip() == scope
        assert not set(scope) & set("&|;<>$`(){}\n'\"\\")
