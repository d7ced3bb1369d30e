"""What a git command does. Options by allow-list: git takes abbreviations, and some options run programs."""

from __future__ import annotations

import re
from typing import Final

from callsheet.describe.shell.parser import Deed, Simple

_LOG = (
    r"-\d+|-n\d*|-[puswbziEq]|-U\d*|-[SGL].*|-[MC]\d*%?|--|--(?:oneline|name-only|name-status|graph|all|patch"
    r"|cached|staged|no-color|abbrev-commit|follow|reverse|merges|no-merges|first-parent|shortstat"
    r"|numstat|summary|no-patch|no-ext-diff|no-textconv|no-renames|quiet|exit-code|check|merge-base"
    r"|raw|full-index|no-prefix|topo-order|date-order|left-right|cherry-pick|no-index|stat|color"
    r"|decorate|no-decorate|ignore-space-change|ignore-all-space|ignore-blank-lines|word-diff|branches|tags"
    r"|remotes|pretty|abbrev|max-count|skip|since|until|after|before|author|grep|count|no-commit-id|root"
    r"|(?:stat|color|decorate|word-diff|branches|tags|remotes|pretty|format|abbrev|max-count|skip|date"
    r"|since|until|after|before|author|committer|grep|diff-filter|unified)=.*)"
)
_BLAME = r"-L.*|-[welsCM]|--|--(?:porcelain|line-porcelain|show-email|date=.*)"
_READS: Final[dict[str, str]] = {
    **dict.fromkeys(("log", "show", "diff", "whatchanged", "rev-list", "stash list"), _LOG),
    **dict.fromkeys(("stash show", "reflog show"), _LOG),
    "diff-tree": rf"-[rt]|{_LOG}",
    "blame": _BLAME,
    "annotate": _BLAME,
    "status": r"-[sbzv]|-sb|-u\w*|--|--(?:short|branch|long|ignored|porcelain(?:=v?\d)?"
    r"|untracked-files(?:=\w+)?)",
    "ls-files": r"-[comsdiukz]+|--|--(?:cached|others|modified|deleted|stage|exclude-standard|full-name"
    r"|error-unmatch|unmerged|ignored|exclude=.*)",
    "ls-tree": r"-[rdtlz]+|--|--(?:name-only|long|full-name|full-tree)",
    "rev-parse": r"-q|--(?:abbrev-ref|short(?:=\d+)?|show-toplevel|git-dir|verify|is-inside-work-tree"
    r"|symbolic-full-name|show-prefix|show-cdup|absolute-git-dir|git-common-dir|quiet)",
    "describe": r"--(?:tags|always|dirty|all|long|exact-match|abbrev=\d+|match=.*)",
    "shortlog": rf"-[sne]+|{_LOG}",
    "cat-file": r"-[tpse]",
    "name-rev": r"--(?:name-only|tags)",
    "count-objects": r"-[vH]+",
    "for-each-ref": r"--(?:sort|format|count|contains|merged|points-at)=.*",
    "merge-base": r"--(?:is-ancestor|all|fork-point)",
    "show-ref": r"--(?:tags|heads|hash|verify)",
    "version": r"(?!)",
    "worktree list": r"--porcelain|-v",
    "submodule status": r"--recursive",
    "remote get-url": r"--all",
}
_GREP = (
    r"-[nilLcwvEFPIHhroeq]+|-[ABC]\d*|--|--(?:cached|untracked|line-number|ignore-case|files-with-matches"
    r"|count|word-regexp|and|or|not|all-match|no-color|heading|break|name-only)"
)
_LS_REMOTE = r"-[htq]|--(?:heads|tags|refs|symref|exit-code|quiet|get-url|sort=.*)"
_CONFIG = (
    r"-[lz]|--(?:get|get-all|list|get-regexp|global|local|system|show-origin|show-scope|null"
    r"|name-only|all)"
)
_CONFIG_READS = frozenset(("--get", "--get-all", "--list", "-l", "get", "list", "--get-regexp"))
_LISTS: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "branch": (
        r"-[arv]|-vv|-avv?|-rvv?|--(?:list|all|remotes|show-current|contains|merged|no-merged|no-color"
        r"|sort=.*|format=.*)",
        frozenset(("--list", "--contains", "--merged", "--no-merged")),
    ),
    "tag": (
        r"-l|-n\d*|--(?:list|contains|merged|no-merged|sort=.*|format=.*)",
        frozenset(("-l", "--list", "--contains", "--merged", "--no-merged")),
    ),
    "remote": (r"-v|--verbose", frozenset()),
    "reflog": (r"-n\d+|-\d+", frozenset()),
}
"""Subcommands that list, but change things when given names. With some options names are patterns."""


def git_deed(words: Simple) -> Deed | None:
    """Say what `git` does with these words, or None."""
    if not all(word.sure for word in words):
        return None
    texts = [word.text for word in words]
    while texts and texts[0].startswith("-"):
        option = texts.pop(0)
        if option == "-C" and texts:
            texts.pop(0)
        elif option not in ("--no-pager", "-P", "--version", "--no-optional-locks"):
            return None
    return _subcommand(texts[0], texts[1:]) if texts else Deed.READ


def _subcommand(name: str, rest: list[str]) -> Deed | None:
    if name == "grep":
        return Deed.SEARCH if _allowed(rest, _GREP) else None
    if name == "ls-remote":
        is_plain = not any("::" in text for text in rest)
        return Deed.FETCH if is_plain and _allowed(rest, _LS_REMOTE) else None
    if name == "config":
        reads = rest[:1] and rest[0] in _CONFIG_READS and _allowed(rest, _CONFIG)
        return Deed.READ if reads else None
    if name in _READS:
        return Deed.READ if _allowed(rest, _READS[name]) else None
    if rest and (both := f"{name} {rest[0]}") in _READS:
        return Deed.READ if _allowed(rest[1:], _READS[both]) else None
    return Deed.READ if name in _LISTS and _lists(rest, *_LISTS[name]) else None


def _lists(rest: list[str], options: str, with_patterns: frozenset[str]) -> bool:
    if not _allowed(rest, options):
        return False
    return not with_patterns.isdisjoint(rest) or all(text.startswith("-") for text in rest)


def _allowed(rest: list[str], options: str) -> bool:
    return all(re.fullmatch(options, text, re.DOTALL) for text in rest if text.startswith("-"))
