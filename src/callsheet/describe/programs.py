"""What well-known programs do when called with some words: only read, search, fetch, or more.

A rule looks at the words after a program's name and gives a `Deed`, or None when it isn't certain. What
has no rule is never certain. Rules name what is harmless; where a program can do harm by a few options
(`find -delete`), they name those, and refuse words that the shell could turn into them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto

from .shell import Simple


class Deed(Enum):
    """What a command does to the world."""

    NOTHING = auto()
    """Prints, waits, changes the directory: says nothing about what the whole is for."""
    READ = auto()
    SEARCH = auto()
    FETCH = auto()


Rule = Callable[[Simple], Deed | None]

_NOTHING = (
    "cd echo printf true false : test [ pushd popd set sleep exit wait seq basename dirname expr"
)
_READ = (
    "cat head tail nl wc ls stat du df pwd whoami id uname realpath readlink md5sum sha1sum sha256sum cksum "
    "diff cmp comm cut paste tr column fold rev tac od hexdump strings zcat jq which whereis type printenv "
    "ps lsof free uptime nproc lscpu groups who base64 lsblk lsusb lspci dir vdir locale getconf tput "
    "get-content gc get-childitem gci get-item get-location test-path"
)
_SEARCH = "grep egrep fgrep zgrep locate findstr select-string"

_UNLESS: dict[str, tuple[Deed, str]] = {
    "find": (Deed.SEARCH, r"-(?:exec|execdir|ok|okdir|delete|fprint0?|fprintf|fls)"),
    "fd": (Deed.SEARCH, r"-[A-Za-z0-9]*[xX].*|--exec.*"),
    "fdfind": (Deed.SEARCH, r"-[A-Za-z0-9]*[xX].*|--exec.*"),
    "rg": (Deed.SEARCH, r"--pre(?:=.*)?|--hostname-bin.*"),
    "ag": (Deed.SEARCH, r"--pager.*"),
    "ack": (Deed.SEARCH, r"--pager.*"),
    "sort": (Deed.READ, r"-[A-Za-z]*[oT].*|--o.*|--comp.*|--te.*"),
    "tree": (Deed.READ, r"-[A-Za-z]*[oR].*|--o.*"),
    "file": (Deed.READ, r"-[A-Za-z]*C.*|--comp.*"),
    "date": (Deed.NOTHING, r"-[A-Za-z]*s.*|--s.*"),
    "less": (Deed.READ, r"-.*[oOkTt].*|\+.*"),
    "more": (Deed.READ, r"\+.*"),
    "bat": (Deed.READ, r"--pager.*|--config.*|cache"),
    "batcat": (Deed.READ, r"--pager.*|--config.*|cache"),
    "yq": (Deed.READ, r"-[A-Za-z]*[is].*|--in.*|--split.*"),
    "unzip": (Deed.READ, r"(?!-[lvZ]+$)-.*"),
}

_SUBCOMMANDS: dict[str, tuple[Deed, str]] = {
    "pip": (Deed.READ, r"list|show|freeze|check"),
    "pip3": (Deed.READ, r"list|show|freeze|check"),
    "npm": (Deed.READ, r"ls|list"),
    "docker": (Deed.READ, r"ps|images|logs|inspect|version|info"),
    "kubectl": (Deed.READ, r"get|describe|logs|explain|version"),
    "gh": (Deed.FETCH, r"(?:issue|pr|run|repo|release|workflow) (?:view|list|diff|status|checks)"),
}

_BAD_NAMES = re.compile(
    r"(?:LD|DYLD|GIT|BASH|PYTHON|PERL|RUBY|NODE|LESS|GREP|JAVA|SSH|SHELL)\w*|PATH|ENV|IFS|\w*PAGER|\w*EDITOR"
    r"|\w*CONFIG_PATH|\w*OPT(?:ION)?S|PROMPT_COMMAND|\w*BROWSER"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")


def is_assignment(word: str) -> bool:
    """Whether a word sets a variable."""
    return _ASSIGNMENT.match(word) is not None


def is_harmless_assignment(word: str) -> bool:
    """Whether a variable can be set without a harmless program doing harm (as with PAGER)."""
    match = _ASSIGNMENT.match(word)
    return match is not None and not _BAD_NAMES.fullmatch(match[1])


def _always(deed: Deed) -> Rule:
    return lambda _: deed


def _unless(deed: Deed, bad: str) -> Rule:
    is_bad = re.compile(bad).fullmatch
    return lambda words: (
        deed if all(word.sure and not is_bad(word.text) for word in words) else None
    )


def _subcommand(deed: Deed, good: str) -> Rule:
    is_good = re.compile(rf"(?:{good})(?: .*)?", re.DOTALL).fullmatch

    def rule(words: Simple) -> Deed | None:
        return deed if is_good(" ".join(word.text for word in words if word.sure)) else None

    return rule


def _uniq(words: Simple) -> Deed | None:
    """A second operand is the file to write."""
    operands = [word for word in words if not (word.sure and word.text.startswith("-"))]
    return Deed.READ if len(operands) < 2 and all(word.sure for word in words) else None


def _tee(words: Simple) -> Deed | None:
    return Deed.NOTHING if all(word.text == "/dev/null" for word in words) else None


def _export(words: Simple) -> Deed | None:
    return Deed.NOTHING if all(is_harmless_assignment(word.text) for word in words) else None


_SED_SUBSTITUTE = r"s([^\w\s\\])(?:\\.|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1[gpiI0-9]*"
_SED_ADDRESS = r"(?:\d+|\$|/(?:\\.|[^/\\])*/)"
_SED = re.compile(
    rf"\s*(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?!?\s*)?(?:[pdqQ=]|{_SED_SUBSTITUTE})?\s*"
)
_SED_OPTION = re.compile(r"-[nErsuz]+e?|--(?:quiet|silent|regexp-extended|expression)|-e")


def _sed(words: Simple) -> Deed | None:
    if not all(word.sure for word in words):
        return None
    script = sed_script(words)
    if script is None:
        return None
    if any(word.text.startswith("-") and not _SED_OPTION.fullmatch(word.text) for word in words):
        return None
    parts = [part for scripts in script for part in re.split(r"[;\n]", scripts)]
    return Deed.READ if all(_SED.fullmatch(part) for part in parts) else None


def sed_script(words: Simple) -> list[str] | None:
    """Give the scripts of a sed command: after each `-e`, else the first operand."""
    texts = [word.text for word in words]
    marked = [
        texts[i + 1 : i + 2]
        for i, text in enumerate(texts)
        if re.fullmatch(r"-\w*e|--expression", text)
    ]
    if marked:
        return [script for scripts in marked for script in scripts] or None
    return next(([text] for text in texts if not text.startswith("-")), None)


def _awk(words: Simple) -> Deed | None:
    texts = [word.text for word in words]
    if not all(word.sure for word in words):
        return None
    while texts and texts[0].startswith("-"):
        option = texts.pop(0)
        if not re.fullmatch(r"-[Fv].*", option):
            return None
        if len(option) == 2 and texts:
            texts.pop(0)
    harm = re.search(r"system|getline|close|[>|@]", texts[0]) if texts else True
    return None if harm else Deed.READ


_GIT_READS = frozenset(
    [
        "status",
        "log",
        "show",
        "diff",
        "blame",
        "annotate",
        "ls-files",
        "ls-tree",
        "rev-parse",
        "describe",
        "shortlog",
        "cat-file",
        "rev-list",
        "name-rev",
        "whatchanged",
        "count-objects",
        "for-each-ref",
        "merge-base",
        "show-ref",
        "version",
        "diff-tree",
        "show-branch",
    ]
)
_GIT_SOMETIMES = re.compile(
    r"(?:stash (?:list|show)|remote(?: -v| get-url)?|reflog(?: show)?|worktree list|submodule status"
    r"|tag(?: (?:-l|--list|-n\d*))?"
    r"|branch(?: (?:-a|-r|-v|-vv|-av|-avv|--(?:list|all|remotes|show-current|contains|merged|no-merged)))*"
    r"|config (?:--get|--list|-l|get|list|--get-all|--show-origin))(?= |$)"
)
_GIT_BAD = re.compile(r"--ou.*|--ext-diff|--open.*|--textconv|--filters|--exec.*|--upload-pack.*")


def _git(words: Simple) -> Deed | None:
    if not all(word.sure for word in words):
        return None
    texts = [word.text for word in words]
    while texts and texts[0].startswith("-"):
        option = texts.pop(0)
        if option == "-C" and texts:
            texts.pop(0)
        elif option not in ("--no-pager", "-P", "--version", "--no-optional-locks"):
            return None
    if not texts or any(_GIT_BAD.fullmatch(text) for text in texts):
        return None if texts else Deed.READ
    return _git_deed(texts)


def _git_deed(texts: list[str]) -> Deed | None:
    name, rest = texts[0], texts[1:]
    if name == "grep":
        return None if any(text.startswith("-O") for text in rest) else Deed.SEARCH
    if name == "ls-remote":
        return Deed.FETCH
    if name in _GIT_READS:
        return Deed.READ
    if not (match := _GIT_SOMETIMES.match(" ".join(texts))):
        return None
    operands = " ".join(texts)[match.end() :].strip()
    lists_only = name in ("branch", "tag", "remote", "reflog") and match[0] in (name, f"{name} -v")
    return None if lists_only and operands else Deed.READ


_CURL_FLAGS = re.compile(
    r"-[sSLfiIvkGNgq46]+|--(?:silent|show-error|location|fail|include|head|verbose|insecure|compressed|globoff"
    r"|no-buffer|http1\.1|http2|ipv4|ipv6|get|no-progress-meter)"
)
_CURL_VALUES = re.compile(
    r"-[sSLfiIvkNg]*[mHAeubX]|--(?:max-time|header|user-agent|referer|user|cookie|request|url|retry|connect-timeout)"
)


def _curl(words: Simple) -> Deed | None:
    texts = [word.text for word in words]
    urls = 0
    while texts:
        text = texts.pop(0)
        if not text.startswith("-"):
            urls += 1
        elif text in ("-o", "--output", "-so", "-sSo", "-sLo"):
            if texts[:1] != ["/dev/null"]:
                return None
            texts.pop(0)
        elif text in ("-w", "--write-out"):
            if "%output" in (texts.pop(0) if texts else "%output"):
                return None
        elif _CURL_VALUES.fullmatch(text) and texts:
            value = texts.pop(0)
            if text.endswith(("X", "--request")) and value.upper() not in (
                "GET",
                "HEAD",
                "OPTIONS",
            ):
                return None
            urls += text == "--url"
        elif not _CURL_FLAGS.fullmatch(text):
            return None
    return Deed.FETCH if urls and all(word.sure or "$" in word.text for word in words) else None


def _wget(words: Simple) -> Deed | None:
    line = " ".join(word.text for word in words)
    to_stdout = re.search(r"(?:^| )(?:-q?O ?-|--output-document=-|--spider)(?= |$)", line)
    flags = re.fullmatch(
        r"(?:(?:-q|-S|-q?O ?-|--quiet|--output-document=-|--spider|--header=\S+|[^-\s]\S*)(?: |$))+",
        line,
    )
    return Deed.FETCH if to_stdout and flags else None


def _tar(words: Simple) -> Deed | None:
    flags = words[0].text if words else ""
    return Deed.READ if re.fullmatch(r"-?t[vzjJ]*f?", flags) and len(words) <= 2 else None


RULES: dict[str, Rule] = {
    **dict.fromkeys(_NOTHING.split(), _always(Deed.NOTHING)),
    **dict.fromkeys(_READ.split(), _always(Deed.READ)),
    **dict.fromkeys(_SEARCH.split(), _always(Deed.SEARCH)),
    **{name: _unless(*rule) for name, rule in _UNLESS.items()},
    **{name: _subcommand(*rule) for name, rule in _SUBCOMMANDS.items()},
    "sed": _sed,
    "gsed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "git": _git,
    "curl": _curl,
    "wget": _wget,
    "tar": _tar,
    "uniq": _uniq,
    "tee": _tee,
    "export": _export,
}
