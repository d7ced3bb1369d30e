"""What well-known programs do when called with some words: only read, search, fetch, or more.

A rule looks at the words after a program's name and gives a `Deed`, or None when it isn't certain. What
has no rule is never certain. Rules name the options that are harmless; only where a program can do harm by
very few (`find -delete`), they name those. Words that the shell could turn into options are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from callsheet.describe.git import git_deed
from callsheet.describe.shell.parser import Deed, Simple

Rule = Callable[[Simple], Deed | None]

_BAT = (
    r"-[npA]+|-[rl]\S*|--(?:plain|number|show-all|paging=never"
    r"|(?:line-range|language|style|color|decorations)(?:=.*)?)"
)

_NOTHING = "cd echo true false : pushd popd sleep exit seq basename dirname expr"
_READ = (
    "cat head tail nl wc ls stat du df pwd whoami id uname realpath readlink md5sum sha1sum sha256sum cksum "
    "diff cmp comm cut paste tr column fold rev tac od hexdump strings jq which whereis type printenv "
    "ps free uptime nproc lscpu groups who lsblk dir vdir locale getconf"
)
_SEARCH = "grep egrep fgrep locate"

ALWAYS_HARMLESS: Final = frozenset(f"{_NOTHING} {_READ} {_SEARCH}".split()) - {"jq"}
"""Programs that do no harm whatever words they are given."""

_UNLESS: dict[str, tuple[Deed, str]] = {
    "find": (Deed.SEARCH, r"-(?:exec|execdir|ok|okdir|delete|fprint0?|fprintf|fls)"),
    "fd": (Deed.SEARCH, r"-[A-Za-z0-9]*[xX].*|--e(?!xclude(?:=|$)|xtension(?:=|$)).*"),
    "fdfind": (Deed.SEARCH, r"-[A-Za-z0-9]*[xX].*|--e(?!xclude(?:=|$)|xtension(?:=|$)).*"),
    "rg": (Deed.SEARCH, r"--pre(?!tty$).*|--ho.*"),
    "ag": (Deed.SEARCH, r"--pa.*"),
    "printf": (Deed.NOTHING, r"-.*|.*(?:\$\(|`|\$\{|%n).*"),
    "test": (Deed.NOTHING, r"-[vR]|.*(?:\$\(|`|\$\{).*"),
    "[": (Deed.NOTHING, r"-[vR]|.*(?:\$\(|`|\$\{).*"),
    "wait": (Deed.NOTHING, r"-.*"),
    "zcat": (Deed.READ, r"-.*"),
    "zgrep": (Deed.SEARCH, r"-(?![inlcvwhHEF]+$).*"),
    "lsof": (Deed.READ, r"[-+].*D.*"),
}
_ONLY: dict[str, tuple[Deed, str]] = {
    "sort": (
        Deed.READ,
        r"-[bdfghinrRsuVzcCmM]*(?:[kt].*)?|--(?:reverse|unique|numeric-sort|version-sort|key=.*)",
    ),
    "tree": (
        Deed.READ,
        r"-[adfilpsughDFqNrtcvUACSJ]*[LPI]?|--(?:dirsfirst|noreport|gitignore|prune|du|filelimit=\d+)",
    ),
    "file": (Deed.READ, r"-[bhiLkNnprv0]+|--(?:brief|mime|mime-type|mime-encoding|dereference)"),
    "less": (Deed.READ, r"-[NSRFXEiInM]+"),
    "more": (Deed.READ, r"-[dlfcpsu]+|-\d+"),
    "bat": (Deed.READ, _BAT),
    "batcat": (Deed.READ, _BAT),
    "yq": (Deed.READ, r"-[rPCMNejcn]+|-[op]=?\w*"),
    "base64": (Deed.READ, r"-[dDi]+|-w\d*|--(?:decode|ignore-garbage|wrap=\d+)"),
    "ack": (
        Deed.SEARCH,
        r"-[iwnlLhHcvQrRs1]+|-[ABCm]\d*|--(?:python|perl|ruby|js|java|cc|cpp|html|css|json|yaml"
        r"|nocolor|nogroup|ignore-case|literal|word-regexp|files-with-matches|count|type=\w+)",
    ),
    "date": (Deed.NOTHING, r"-[uR]|-I\w*|--(?:utc|iso-8601(?:=\w+)?|rfc-3339=\w+)"),
}
_REFUSED_OPERANDS = {"date": r"(?!\+).*", "less": r"\+.*", "more": r"\+.*", "bat": "cache"} | {
    "batcat": "cache",
    "yq": r".*\bsystem\b.*",
}

_PIP = (
    Deed.READ,
    r"list|show|freeze|check",
    r"-[oulevfq]|--(?:outdated|uptodate|user|local|editable|verbose|files|not-required|all|pre|quiet"
    r"|format(?:=\w+)?|disable-pip-version-check)",
)
_SUBCOMMANDS: dict[str, tuple[Deed, str, str]] = {
    "pip": _PIP,
    "pip3": _PIP,
    "npm": (Deed.READ, r"ls|list", r"-[ag]|--(?:depth(?:=\d+)?|global|all|json|long|parseable)"),
    "docker": (
        Deed.READ,
        r"ps|images|logs|inspect|version|info",
        r"-[aqlnsft]|-n\d+|--(?:all|quiet|latest|no-trunc|size|timestamps|follow|details|digests"
        r"|(?:format|filter|tail|since|until|type|last)(?:=.*)?)",
    ),
    "kubectl": (
        Deed.READ,
        r"get|describe|logs|explain|version",
        r"-[nlAwfcpo]|-o=?[\w.-]+|--(?:all-namespaces|watch|show-labels|follow|previous|timestamps"
        r"|no-headers|recursive|all-containers|client"
        r"|(?:output|namespace|selector|tail|since|container|sort-by|field-selector)(?:=.*)?)",
    ),
    "gh": (
        Deed.FETCH,
        r"(?:issue|pr|run|repo|release|workflow) (?:view|list|diff|status|checks)",
        r"-[LlsAaRcqtBS]|-R\S+|-L\d+|--(?:comments|log|log-failed|name-only|patch|verbose"
        r"|(?:json|jq|limit|state|label|author|assignee|repo|template|branch|search|head|base"
        r"|job|color)(?:=.*)?)",
    ),
}

_HARMLESS_NAMES = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|TERM|COLORTERM|COLUMNS"
    r"|LINES|CI"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)


def is_harmless_name(name: object) -> bool:
    """Whether a variable can be set without a harmless program doing harm (as with PAGER)."""
    return isinstance(name, str) and _HARMLESS_NAMES.fullmatch(name) is not None


def is_assignment(word: str) -> bool:
    """Whether a word sets a variable, for `env`."""
    return _ASSIGNMENT.match(word) is not None


def is_harmless_assignment(word: str) -> bool:
    """Whether a word sets a variable, and a harmless one."""
    match = _ASSIGNMENT.match(word)
    return match is not None and is_harmless_name(match[1])


def _always(deed: Deed) -> Rule:
    return lambda _: deed


def _unless(deed: Deed, bad: str) -> Rule:
    is_bad = re.compile(bad, re.DOTALL).fullmatch
    return lambda words: (
        deed if all(word.sure and not is_bad(word.text) for word in words) else None
    )


def _only(name: str, deed: Deed, good: str) -> Rule:
    """Allow these options and no others; some programs refuse operands too."""
    is_good = re.compile(good, re.DOTALL).fullmatch
    is_bad = re.compile(_REFUSED_OPERANDS.get(name, "(?!)"), re.DOTALL).fullmatch

    def is_harmless(text: str) -> bool:
        if text[:1] == "-" and text not in ("-", "--"):
            return is_good(text) is not None
        return is_bad(text) is None

    return lambda words: (
        deed if all(word.sure and is_harmless(word.text) for word in words) else None
    )


def _subcommand(deed: Deed, good: str, options: str) -> Rule:
    is_good = re.compile(rf"(?:{good})", re.DOTALL).fullmatch
    count = 2 if " " in good else 1
    allowed = _only("", deed, options)

    def rule(words: Simple) -> Deed | None:
        if not is_good(" ".join(word.text for word in words[:count])):
            return None
        return allowed(words)

    return rule


def _uniq(words: Simple) -> Deed | None:
    """A second operand is the file to write."""
    operands = [word for word in words if not (word.sure and word.text.startswith("-"))]
    return Deed.READ if len(operands) < 2 and all(word.sure for word in words) else None


def _tee(words: Simple) -> Deed | None:
    to_nothing = all(word.sure and word.text == "/dev/null" for word in words)
    return Deed.NOTHING if to_nothing else None


def _export(words: Simple) -> Deed | None:
    return Deed.NOTHING if all(is_harmless_assignment(word.text) for word in words) else None


_SED_SUBSTITUTE = r"s([^\w\s\\])(?:\\.|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1[gpiI0-9]*"
_SED_ADDRESS = r"(?:\d+|\$|/(?:\\.|[^/\\])*/)"
_SED = re.compile(
    rf"\s*(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?!?\s*)?(?:[pdqQ=]|{_SED_SUBSTITUTE})?\s*"
)
# Where brackets hold a delimiter, seds don't agree on where an expression ends.
_SED_BRACKET = re.compile(r"\[\^?\]?[^\]]*[/;]|s[^/\w\s].*\[")
_SED_OPTION = re.compile(r"-[nErsuz]+e?|--(?:quiet|silent|regexp-extended|expression)|-e")


def _sed(words: Simple) -> Deed | None:
    if not all(word.sure for word in words):
        return None
    script = sed_script(words)
    if script is None:
        return None
    if any(word.text.startswith("-") and not _SED_OPTION.fullmatch(word.text) for word in words):
        return None
    if any(_SED_BRACKET.search(text) for text in script):
        return None
    parts = [part for scripts in script for part in re.split(r"[;\n]", scripts)]
    return Deed.READ if all(_SED.fullmatch(part) for part in parts) else None


def sed_script(words: Simple) -> list[str] | None:
    """Return the scripts of a sed command: after each `-e`, else the first operand."""
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
    harm = re.search(r"system|getline|close|[>|@]|\\\n", texts[0]) if texts else True
    return None if harm else Deed.READ


_CURL_FLAGS = re.compile(
    r"-[sSLfiIvkGNgq46]+|--(?:silent|show-error|location|fail|include|head|verbose|insecure|compressed|globoff"
    r"|no-buffer|http1\.1|http2|ipv4|ipv6|get|no-progress-meter)"
)
_CURL_VALUES = re.compile(
    r"-[sSLfiIvkNg]*[mHAeuX]|--(?:max-time|header|user-agent|referer|user|request|url|retry|connect-timeout)"
)


_CURL_ADDRESS = re.compile(r"(?!-)(?:https?://.*|(?!.*://).*)", re.I | re.S).fullmatch


def _curl(words: Simple) -> Deed | None:
    if not all(word.sure for word in words):
        return None
    texts = [word.text for word in words]
    urls = 0
    while texts:
        text = texts.pop(0)
        if not text.startswith("-"):
            if not _CURL_ADDRESS(text):
                return None
            urls += 1
        elif _CURL_FLAGS.fullmatch(text):
            continue
        elif not texts or not _curl_value(text, texts.pop(0)):
            return None
        else:
            urls += text == "--url"
    return Deed.FETCH if urls else None


def _curl_value(option: str, value: str) -> bool:
    """Whether an option is harmless with this value."""
    if option in ("-o", "--output", "-so", "-sSo", "-sLo"):
        return value == "/dev/null"
    if value.startswith("@"):  # the value is in a file
        return False
    if option in ("-w", "--write-out"):
        return "%output" not in value
    if not _CURL_VALUES.fullmatch(option):
        return False
    if option == "--url":
        return _CURL_ADDRESS(value) is not None
    is_method = option.endswith("X") or option == "--request"
    return not is_method or value.upper() in ("GET", "HEAD", "OPTIONS")


_WGET_FLAG = re.compile(r"-q|-S|-nv|--quiet|--no-verbose|--header=.+", re.DOTALL)


def _wget(words: Simple) -> Deed | None:
    texts = [word.text for word in words]
    if not all(word.sure for word in words):
        return None
    kept = False
    while texts:
        text = texts.pop(0)
        if text in ("-O", "-qO"):
            if texts[:1] != ["-"]:
                return None
            texts.pop(0)
            kept = True
        elif text in ("-O-", "-qO-", "--output-document=-", "--spider"):
            kept = True
        elif text.startswith("-") and not _WGET_FLAG.fullmatch(text):
            return None
    return Deed.FETCH if kept else None


def _tar(words: Simple) -> Deed | None:
    """List an archive. A colon in its name means another machine."""
    texts = [word.text for word in words]
    if not all(word.sure for word in words) or len(texts) != 2:
        return None
    listing = re.fullmatch(r"-?t[vzjJ]*f", texts[0]) and re.fullmatch(r"(?!-)[^:]+", texts[1])
    return Deed.READ if listing else None


def _unzip(words: Simple) -> Deed | None:
    texts = [word.text for word in words]
    if not texts or not all(word.sure for word in words):
        return None
    listing = re.fullmatch(r"-[lv]+|-Z1?", texts[0])
    return Deed.READ if listing and not any(text[:1] == "-" for text in texts[1:]) else None


RULES: dict[str, Rule] = {
    **dict.fromkeys(_NOTHING.split(), _always(Deed.NOTHING)),
    **dict.fromkeys(_READ.split(), _always(Deed.READ)),
    **dict.fromkeys(_SEARCH.split(), _always(Deed.SEARCH)),
    **{name: _unless(*rule) for name, rule in _UNLESS.items()},
    **{name: _only(name, *rule) for name, rule in _ONLY.items()},
    **{name: _subcommand(*rule) for name, rule in _SUBCOMMANDS.items()},
    "sed": _sed,
    "gsed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "git": git_deed,
    "curl": _curl,
    "wget": _wget,
    "tar": _tar,
    "unzip": _unzip,
    "uniq": _uniq,
    "tee": _tee,
    "export": _export,
}
