"""A call's kind, title and locations, as one value, in one language, seen from one session.

What was declared wins; everything else is guessed by the steps of `classify` and the shapes. A describer
never raises on a call, whatever its input is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, cast

from msgspec import Struct

from callsheet.describe import i18n
from callsheet.describe.arguments import DESTINATION, DIRECTORY, PATH, SOURCE, URL, Arguments, first
from callsheet.describe.classify import (
    MAX_NAME,
    Annotations,
    ToolPlan,
    calls_another,
    declared_kind,
    inferred_kind,
    look_up,
    plan_of,
)
from callsheet.describe.i18n import DECIMAL_COMMA, catalogue, pick_locale
from callsheet.describe.paths import Locations, PathContext, distinct, linked
from callsheet.describe.shapes import TEXT_WIDTH, DescriptionDraft
from callsheet.describe.shapes.search import show_url
from callsheet.describe.shell.display import show_command
from callsheet.describe.titles import ELLIPSIS, Redact, cut, fit
from callsheet.report.fields import Kind, ToolCallLocation

TITLE_WIDTH = 120
_MAX_TEMPLATE = 1000
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SURELY_FITS = TITLE_WIDTH // 2
"""As many characters fit, even if all of them are wide."""


_ARGUMENT = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_PATHS = frozenset((*PATH, *DIRECTORY, *SOURCE, *DESTINATION)) - {
    "target",
    "to",
    "from",
    "root",
    "uri",
}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+").fullmatch
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "path": PATH,
    "file": PATH,
    "source": SOURCE,
    "destination": DESTINATION,
    "directory": DIRECTORY,
    "url": URL,
}


class Description(Struct, frozen=True):
    """What a call does, in ACP's word, in a person's words, and where."""

    kind: Kind
    title: str
    locations: Locations


class Describer:
    """Describes the calls of one session.

    `cwd` is the session's directory, `roots` are its other workspace directories, `home` the user's.
    `locale` is a language (`pick_locale` finds the environment's). `redact` takes secrets out of a text; it
    runs on what is about to be cut for a title, since a cut could leave half a secret.
    """

    def __init__(
        self,
        cwd: str,
        *,
        locale: str | None = None,
        roots: Sequence[str] = (),
        home: str | None = None,
        redact: Redact | None = None,
    ) -> None:
        self.workspace: PathContext = PathContext(cwd, roots, home, redact)
        self.locale: str = pick_locale(locale)
        self._catalogue = catalogue(self.locale)
        self._texts: dict[str, str] = {}
        self._unknown_tool: str = self.phrase("unknown_tool")

    def __call__(
        self,
        name: str,
        raw_input: object = None,
        *,
        kind: Kind | str | None = None,
        title: str | None = None,
        locations: Sequence[ToolCallLocation | str] | None = None,
        annotations: Annotations | None = None,
    ) -> Description:
        """Describe one call. What is declared is used as it is; the rest is guessed."""
        if type(raw_input) is dict and type(name) is str:
            arguments: Arguments = raw_input  # pyright: ignore[reportUnknownVariableType]
            plan = plan_of(name if len(name) <= MAX_NAME else name[:MAX_NAME])
            if plan.shape is calls_another:
                plan, arguments = look_up(name, arguments)
        else:
            plan, arguments = look_up(name, raw_input)  # pyright: ignore[reportUnknownArgumentType]
        draft = plan.shape(arguments, self.workspace)
        if kind is title is locations is annotations is plan.label is None:
            found = inferred_kind(plan, draft, arguments)
            return Description(found, self._rendered(draft), draft.locations)
        return Description(
            declared_kind(kind) or inferred_kind(plan, draft, arguments, annotations),
            self._title(name, plan, draft, title, arguments, annotations),
            self._locations(plan, draft, locations, arguments),
        )

    def phrase(self, key: str, **values: str | int | float) -> str:
        """Return one of the fixed phrases, translated: `phrase("lines_left_out", count=3)`."""
        said = {name: self._number(value) for name, value in values.items()}
        return self._template(i18n.PHRASES[key], values.get("count")).format(**said)

    def _number(self, value: str | float) -> str | int | float:
        """Write a fraction as the language does; a whole number needs none."""
        if not isinstance(value, float):
            return value
        text = f"{value:.10g}"
        return text.replace(".", ",") if self.locale in DECIMAL_COMMA else text

    def _title(
        self,
        name: object,
        plan: ToolPlan,
        draft: DescriptionDraft,
        title: str | None,
        arguments: Arguments,
        annotations: Annotations | None,
    ) -> str:
        if isinstance(title, str) and title.strip():
            return self._filled(title, arguments)
        if not isinstance(name, str) or not name.strip():
            return self._unknown_tool
        return self._guessed_title(plan, draft, annotations)

    def _filled(self, title: str, arguments: Arguments) -> str:
        """Fill a tool's own title. One that our catalogues know is translated."""
        if len(title) > _MAX_TEMPLATE:
            return fit(self.workspace.clean(title), TITLE_WIDTH)
        text = fill(self._template(title), arguments, self.workspace)
        return fit(text, TITLE_WIDTH) or self._unknown_tool

    def _guessed_title(
        self, plan: ToolPlan, draft: DescriptionDraft, annotations: Annotations | None
    ) -> str:
        if plan.label is None:
            return self._rendered(draft)
        if draft.values and draft.message:
            text = self._rendered(draft)
        else:
            own = annotations.get("title") if annotations else None
            text = fit(own, TITLE_WIDTH) if isinstance(own, str) else ""
            text = text or plan.label
            if draft.values:
                text = f"{text}: {draft.values['path']}"
        return _bounded(f"{text} ({plan.server})" if plan.server else text) or self._unknown_tool

    def _locations(
        self,
        plan: ToolPlan,
        draft: DescriptionDraft,
        locations: Sequence[ToolCallLocation | str] | None,
        arguments: Arguments,
    ) -> Locations:
        if locations is not None:
            return distinct(self._declared_locations(locations, arguments))
        if plan.label is None or not arguments:
            return draft.locations
        links = linked(arguments, self.workspace)
        return distinct((*links, *draft.locations)) if links else draft.locations

    def _declared_locations(
        self, locations: object, arguments: Arguments
    ) -> list[ToolCallLocation]:
        """Return what can be a location. What can't is skipped: a call never fails by its description."""
        if isinstance(locations, (str, bytes)) or not isinstance(locations, Iterable):
            return []
        found: list[ToolCallLocation] = []
        for location in cast(Iterable[object], locations):
            if isinstance(location, ToolCallLocation):
                found.append(location)
                continue
            if not isinstance(location, str):
                continue
            path: object = location
            if location[:1] == "{" and location[-1:] == "}":
                path = arguments.get(location[1:-1])
            place = self.workspace.locate(path)
            if place is not None:
                found.append(place)
        return found

    def _rendered(self, draft: DescriptionDraft) -> str:
        template = self._texts.get(draft.message)
        if template is None:
            values = draft.values
            template = _compiled(self._template(draft.message, values.get("count")))
            if "count" not in values:
                self._texts[draft.message] = template
        title = template % draft.values
        return title if len(title) <= _SURELY_FITS else _bounded(title)

    def _template(self, message: str, count: object = None) -> str:
        """Return a message in the describer's language; an unknown one as it is."""
        if not message:
            return message
        plural = i18n.PLURALS.get(message)
        if plural is not None and isinstance(count, int):
            return self._catalogue.ngettext(message, plural, count)
        return self._catalogue.gettext(message)


def fit_title(text: str) -> str:
    """Return a text as titles are: on one line, without controls, cut in the middle if it is too wide."""
    return fit(text, TITLE_WIDTH)


@cache
def _compiled(template: str) -> str:
    """Return a message in the form that Python fills fastest."""
    return _PLACEHOLDER.sub(r"%(\1)s", template.replace("%", "%%"))


def _bounded(title: str) -> str:
    return title if len(title) <= _SURELY_FITS else cut(title, TITLE_WIDTH)


# Titles that a tool declares: "Reading {path}" with the arguments of a call. Only names are looked up;
# nothing is ever evaluated. What is missing becomes an ellipsis, so that a title never fails and still
# shows what the tool's author meant it to show.


def fill(template: str, arguments: Arguments, workspace: PathContext) -> str:
    """Put arguments into a template. Never raises; `{{` and `}}` are braces."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        name = match[1].partition("!")[0].partition(":")[0].strip()
        return _value(name, arguments, workspace)

    return _ARGUMENT.sub(value, template)


def _value(name: str, arguments: Arguments, workspace: PathContext) -> str:
    value = _find(name, arguments)
    if isinstance(value, str) and value.strip():
        if name in _PATHS and "://" not in value:
            return workspace.place(value)[0] or ELLIPSIS
        if _URL(value):
            is_file = value[:5].lower() == "file:"
            return workspace.place(value)[0] if is_file else show_url(value, workspace)
        if name in ("command", "cmd"):
            return show_command(value, TEXT_WIDTH, workspace)
        return workspace.shorten(value, TEXT_WIDTH)
    return _plain(value, workspace)


def _find(name: str, arguments: Arguments) -> Any:
    if name in arguments:
        return arguments[name]
    if "." in name:
        head, _, rest = name.partition(".")
        inner = arguments.get(head)
        return _find(rest, cast(Arguments, inner)) if isinstance(inner, dict) else None
    return first(arguments, _SYNONYMS.get(name, ()))


def _plain(value: object, workspace: PathContext) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 256:
        return ELLIPSIS
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, list) and value:
        items = cast(list[object], value)[:8]
        if all(isinstance(item, (str, int, float)) for item in items):
            return workspace.shorten(", ".join(map(str, items)), TEXT_WIDTH) or ELLIPSIS
    return ELLIPSIS
