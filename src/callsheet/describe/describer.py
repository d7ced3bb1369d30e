"""A call's kind, title and locations, as one value, in one language, seen from one session.

What was declared wins; everything else is guessed by the steps of `classify` and the shapes. A describer
never raises on a call, whatever its input is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import cast

from msgspec import Struct

from callsheet.describe import messages
from callsheet.describe.arguments import Arguments
from callsheet.describe.classify import (
    MAX_NAME,
    Annotations,
    Plan,
    calls_another,
    declared_kind,
    inferred_kind,
    look_up,
    plan_of,
)
from callsheet.describe.drafts import Draft, Locations, distinct
from callsheet.describe.links import linked
from callsheet.describe.locales import DECIMAL_COMMA, catalogue, pick_locale
from callsheet.describe.paths import Workspace
from callsheet.describe.templates import fill
from callsheet.describe.text import Redact, cut, fit
from callsheet.report.fields import Kind, ToolCallLocation

TITLE_WIDTH = 120
_MAX_TEMPLATE = 1000
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SURELY_FITS = TITLE_WIDTH // 2
"""As many characters fit, even if all of them are wide."""


class Description(Struct, frozen=True):
    """What a call does, in ACP's word, in a person's words, and where."""

    kind: Kind
    title: str
    locations: Locations


class Describer:
    """Describes the calls of one session.

    `cwd` is the session's directory, `roots` are its other workspace directories, `home` the user's.
    `locale` is a language (`pick_locale` finds the environment's). `redact` takes secrets out of a text; it
    runs on what is about to be cut or mended for a title, since a cut could leave half a secret.
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
        self.workspace: Workspace = Workspace(cwd, roots, home, redact)
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
        """Describe one call. What is declared is kept; the rest is guessed."""
        if type(raw_input) is dict and type(name) is str:
            arguments: Arguments = raw_input  # pyright: ignore[reportUnknownVariableType]
            plan = plan_of(name if len(name) <= MAX_NAME else name[:MAX_NAME])
            if plan.shape is calls_another:
                plan, arguments = look_up(name, arguments)
        else:
            plan, arguments = look_up(name, raw_input)  # pyright: ignore[reportUnknownArgumentType]
        draft = plan.shape(arguments, self.workspace)
        if kind is title is locations is annotations is plan.label is None:
            found = inferred_kind(plan, draft, arguments)[0]
            return Description(found, self._said(draft), draft.locations)
        return Description(
            declared_kind(kind) or inferred_kind(plan, draft, arguments, annotations)[0],
            self._title(name, plan, draft, title, arguments, annotations),
            self._locations(plan, draft, locations, arguments),
        )

    def phrase(self, key: str, **values: str | int | float) -> str:
        """Return one of the fixed phrases, translated: `phrase("lines_left_out", count=3)`."""
        said = {name: self._number(value) for name, value in values.items()}
        return self._template(messages.PHRASES[key], values.get("count")).format(**said)

    def _number(self, value: str | float) -> str | int | float:
        """Write a fraction as the language does; a whole number needs none."""
        if not isinstance(value, float):
            return value
        text = f"{value:.10g}"
        return text.replace(".", ",") if self.locale in DECIMAL_COMMA else text

    def _title(
        self,
        name: object,
        plan: Plan,
        draft: Draft,
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

    def _guessed_title(self, plan: Plan, draft: Draft, annotations: Annotations | None) -> str:
        if plan.label is None:
            return self._said(draft)
        if draft.values and draft.message:
            text = self._said(draft)
        else:
            own = annotations.get("title") if annotations else None
            text = fit(own, TITLE_WIDTH) if isinstance(own, str) else ""
            text = text or plan.label
            if draft.values:
                text = f"{text}: {draft.values['path']}"
        return _bounded(f"{text} ({plan.server})" if plan.server else text) or self._unknown_tool

    def _locations(
        self,
        plan: Plan,
        draft: Draft,
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

    def _said(self, draft: Draft) -> str:
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
        plural = messages.PLURALS.get(message)
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
