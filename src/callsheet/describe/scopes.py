"""What "always" may mean of a command: the program with its subcommand, where that says what is done.

`git status -s` is one of many that are all `git status`. A command that does more than to call one
program by its name (operators, substitutions, redirections, variables set for it), or whose program does
whatever its arguments say (an interpreter, `sudo`, `find`, `rm`), is only what it is itself.
"""

from __future__ import annotations

import re

from .shell import Unsure, sole

_BY_SUBCOMMAND = (
    "git gh glab hg jj svn npm pnpm yarn bun npx deno cargo rustup go pip pip3 pipx uv poetry pdm "
    "hatch conda docker podman kubectl helm terraform tofu apt apt-get brew dnf pacman systemctl make "
    "just task rake bundle gem composer dotnet mvn gradle gradlew bazel mix swift flutter dart rails "
    "django-admin nx turbo pre-commit tox nox aws gcloud az heroku fly vercel netlify"
)
_SUBCOMMANDS = frozenset(_BY_SUBCOMMAND.split())
"""Programs whose first argument says what they do."""

_BY_TARGET = "make just task rake"
_TARGETS = frozenset(_BY_TARGET.split())
"""Those of which all further arguments are more that is done."""

_BY_THIRD = (
    "npm run, pnpm run, yarn run, bun run, docker compose, go tool, git stash, git remote, git worktree, "
    "git notes, docker volume, docker image, docker container, docker network, docker system, "
    "podman volume, podman image, podman container, podman network, podman system, terraform state"
)
_RUNNERS = frozenset(_BY_THIRD.split(", "))
"""Subcommands whose next argument says what they do."""

_THINGS = frozenset(["gh", "glab", "aws", "az", "gcloud"])
"""Programs whose first argument says with what something is done, and the next one what."""

_MODULES = frozenset(["timeit", "pdb", "code", "cProfile", "profile", "trace", "runpy", "asyncio"])
"""Modules of Python that run whatever their arguments say."""

_FREE = (
    "uv run, uv tool, uvx, poetry run, pdm run, hatch run, pipx run, conda run, bundle exec, npm "
    "exec, pnpm exec, pnpm dlx, yarn exec, yarn dlx, docker run, docker exec, podman run, podman "
    "exec, kubectl exec, kubectl run, git config, git bisect, git difftool, git submodule, "
    "git filter-branch, git rebase, deno run, deno eval, go run, go generate, cargo run, bun x, "
    "gh api, gh alias, gh extension, brew install, mix run, dotnet run, dart run, swift run, "
    "terraform apply, aws ssm, gcloud compute, rails runner, npm config"
)
_ANYTHING = frozenset(_FREE.split(", "))
"""Subcommands that do whatever their arguments say."""

_FREE_PROGRAMS = (
    "bash sh zsh dash ksh fish csh tcsh pwsh powershell cmd python python2 python3 pypy pypy3 node "
    "nodejs perl ruby php lua luajit tclsh Rscript julia ghci erl elixir iex java scala groovy "
    "osascript awk gawk mawk sed ed ex vi vim nvim emacs env sudo doas su runuser chroot nsenter "
    "unshare setsid nohup time timeout nice ionice stdbuf xargs parallel watch entr find fd ssh scp "
    "rsync sftp socat nc ncat telnet curl wget eval exec source . command builtin trap alias unalias "
    "export declare set shopt enable function if then else elif fi for while until do done case esac "
    "select { } [[ ! coproc mv cp rm rmdir unlink shred dd mkfs mount umount chmod chown chgrp kill pkill "
    "killall truncate tee install ln crontab at batch screen tmux script expect gdb strace ltrace "
    "perf tar unzip busybox jq yq sqlite3 psql mysql mongo redis-cli ipython jupyter uvx flock "
    "systemd-run rbash tsx ts-node nix nix-shell mise direnv rye devbox vagrant docker-compose unbuffer "
    "rlwrap taskset numactl chrt prlimit setpriv pkexec gosu fakeroot proot firejail bwrap valgrind "
    "xvfb-run dbus-run-session caffeinate ccache run-parts sg dotenv op aws-vault"
)
_WHATEVER = frozenset(_FREE_PROGRAMS.split())
"""Programs that do whatever their arguments say, and those that take away."""

_TELLING = 3
"""Words that may say what is done. What a variable stands for is not known."""

_WORD = re.compile(r"[A-Za-z0-9][\w.:@/+-]*", re.ASCII).fullmatch
_PROGRAM = re.compile(r"[A-Za-z0-9_.~/+-]+", re.ASCII).fullmatch
_VERSION = re.compile(r"(?<=[a-z])-?\d[\d.]*$|\.exe$").sub
_GIT_RUNS = re.compile(r"--(?:u|up|upl.*|rece.*|e|ex|ex[et].*|o|op.*|ou|out.*)|-O.*").fullmatch
_RG_RUNS = re.compile(r"--(?:pre|hostname-bin)(?:=.*)?").fullmatch
_RUNS = {"git": _GIT_RUNS, "rg": _RG_RUNS}
"""Options that name a program to run, or a file to write. Git takes them shortened, too."""

_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[\d.]*").fullmatch


def scope_of_command(command: str) -> str | None:
    """Give what all commands that are like this one have in common; None if it is one of its own."""
    try:
        words = sole(command)
    except Unsure:
        return None
    first = words[:_TELLING]
    if words[0].assigns or not all(word.sure for word in first):
        return None
    runs = _RUNS.get(words[0].text.rpartition("/")[2])
    if runs is not None and any(not word.sure or runs(word.text) for word in words[1:]):
        return None
    return _scope([word.text for word in first], len(words))


def _scope(words: list[str], count: int) -> str | None:
    program = words[0]
    name = program.rpartition("/")[2]
    if _PYTHON(program) and len(words) > 2 and words[1] == "-m" and _WORD(words[2]):
        return None if words[2] in _MODULES else " ".join(words[:3])
    if (
        name in _WHATEVER
        or _VERSION("", name) in _WHATEVER
        or not _PROGRAM(program)
        or _PYTHON(program)
    ):
        return None
    if name not in _SUBCOMMANDS:
        return program
    if count == 1:
        return program
    if not _WORD(words[1]) or f"{name} {words[1]}" in _ANYTHING:
        return None
    if name in _THINGS or f"{name} {words[1]}" in _RUNNERS:
        return " ".join([program, *words[1:3]]) if count > 2 and _WORD(words[2]) else None
    if name in _TARGETS and count > 2:
        return None
    return f"{program} {words[1]}"
