"""What "always" may mean of a command."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.describe.scopes import scope_of_command


@pytest.mark.parametrize(
    ("command", "scope"),
    [
        ("git status", "git status"),
        ("git status -s .", "git status"),
        ("  git   status  ", "git status"),
        ("'git' \"status\"", "git status"),
        ("git commit -m 'one; two && three > four'", "git commit"),
        ("git status # what is new", "git status"),
        ("pytest", "pytest"),
        ("pytest -q tests/test_a.py -k 'a or b'", "pytest"),
        ("ls -la", "ls"),
        ("python -m pytest -q", "python -m pytest"),
        (".venv/bin/python3.12 -m mypy src", ".venv/bin/python3.12 -m mypy"),
        ("npm test", "npm test"),
        ("npm run lint -- --fix", "npm run lint"),
        ("docker compose up -d", "docker compose up"),
        ("gh pr view 1", "gh pr view"),
        ("aws s3 ls", "aws s3 ls"),
        ("git stash list", "git stash list"),
        ("git log --oneline -n 3", "git log"),
        ("git fetch --recurse-submodules", "git fetch"),
        ("make", "make"),
        ("make test", "make test"),
        ("./scripts/build.sh --fast", "./scripts/build.sh"),
    ],
)
def test_simple_commands_are_known_by_program_and_subcommand(command: str, scope: str) -> None:
    assert scope_of_command(command) == scope


@pytest.mark.parametrize(
    "command",
    [
        "git status && rm -rf /",
        "git status; rm x",
        "git status | sh",
        "git status\nrm x",
        "git status &",
        "git log > ~/.bashrc",
        "git log 2>/dev/null",
        "git log < x",
        "git log $(rm x)",
        "git log `rm x`",
        "git log <(rm x)",
        "(git status)",
        "{ git status; }",
        "! git status",
        "GIT_SSH_COMMAND=evil git status",
        "git -c core.pager=evil status",
        "git --exec-path=. status",
        "git $SUB",
        "$PROGRAM status",
        "git stat*",
        "git {status,push}",
        "git 'a b'",
        "git config core.pager evil",
        "git bisect run rm",
        "git submodule foreach rm",
        "git difftool -x evil",
        "git stash",
        "gh pr",
        "git fetch origin main --upload-pack=evil",
        "git push origin main --exec evil",
        "git grep -n -e x -Oevil",
        "git log -n 3 --output=x",
        "git fetch origin main $X",
        "rg x --pre evil",
        "python -m timeit evil",
        "node20 -e evil",
        "perl5.36 -e evil",
        "cmd.exe /c evil",
        "taskset 1 rm x",
        "nix-shell --run evil",
        "git",  # it only prints help, and is a key of its own
        "bash x.sh",
        "python x.py",
        "/usr/bin/python3 x.py",
        "python -c 'evil'",
        "env git status",
        "sudo git status",
        "xargs rm",
        "find . -delete",
        "rm x",
        "/bin/rm x",
        "uv run anything",
        "docker run -v /:/x image",
        "npm run",
        "npm run $X",
        "npm run --prefix x",
        "make SHELL=evil",
        "make test SHELL=evil",
        "make -f evil",
        "eval x",
        "source x",
        ". x",
        "if true",
        "git status \\\n; rm x",
        "git status 'not ended",
        "",
        "   ",
        "# nothing",
        "git\0status",
        "git " + "x" * 5000,
    ],
)
def test_others_are_only_what_they_are(command: str) -> None:
    assert scope_of_command(command) in (None, "git" if command == "git" else None)


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
