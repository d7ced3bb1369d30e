"""A call's kind, title and locations, as one value, in one language, seen from one session.

What was declared wins; everything else is guessed by the steps of `classify` and the shapes. A describer
never raises on a call, whatever its input is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from msgspec import Struct

from callsheet.describe.arguments import Arguments, to_arguments
from callsheet.describe.classify import (
    MAX_NAME,
    Annotations,
    ToolPlan,
    called_tool,
    declared_kind,
    inferred_kind,
    plan_of,
)
from callsheet.describe.i18n import DECIMAL_COMMA, PHRASES, Message, catalogue, pick_locale
from callsheet.describe.paths import Locations, PathContext, distinct
from callsheet.describe.shapes import DescriptionDraft
from callsheet.describe.titles import Redact, cut, fit
from callsheet.describe.values import fill_template
from callsheet.report.fields import Kind, ToolCallLocation
from callsheet.report.patterns import lazy

TITLE_WIDTH = 120
_SURELY_FITS = TITLE_WIDTH // 2
"""As many characters fit, even if all of them are wide."""

_ELSEWHERE = frozenset(
    ("owner", "repo", "repository", "project_id", "projectId", "bucket", "repo_id")
)
"""Arguments by which a server's paths are in a repository or a bucket, not on this disk."""


_PLACEHOLDER = lazy(r"\{(\w+)\}")


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
        self._texts: dict[Message, str] = {}

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
        plan = plan_of(name[:MAX_NAME] if isinstance(name, str) else "")
        arguments: Arguments = (  # pyright: ignore[reportUnknownVariableType]
            raw_input if type(raw_input) is dict else to_arguments(raw_input)
        )
        if plan.calls_another:
            plan, arguments = called_tool(plan, arguments)
        draft = plan.shape(arguments, self.workspace)
        found = inferred_kind(plan, draft, arguments, annotations)
        if kind is title is locations is plan.label is None:
            return Description(found, self._rendered(draft), draft.locations)
        return Description(
            (None if kind is None else declared_kind(kind)) or found,
            self._title(plan, draft, title, arguments, annotations),
            self._locations(plan, draft, locations, arguments),
        )

    def phrase(self, key: str, **values: str | int | float) -> str:
        """Return one of the fixed phrases, translated: `phrase("lines_left_out", count=3)`."""
        written = {name: self._number(value) for name, value in values.items()}
        return self._template(PHRASES[key], values.get("count")).format(**written)

    def _number(self, value: str | float) -> str | int | float:
        """Write a fraction as the language does; a whole number needs none."""
        if not isinstance(value, float):
            return value
        text = f"{value:.10g}"
        return text.replace(".", ",") if self.locale in DECIMAL_COMMA else text

    def _title(
        self,
        plan: ToolPlan,
        draft: DescriptionDraft,
        title: str | None,
        arguments: Arguments,
        annotations: Annotations | None,
    ) -> str:
        if isinstance(title, str) and title.strip():
            return self._filled(title, arguments)
        if plan.label is None:
            return self._rendered(draft)
        if not plan.label:
            return self.phrase("unknown_tool")
        if draft.values and draft.message:
            text = self._rendered(draft)
        else:
            own = annotations.get("title") if annotations else None
            text = (isinstance(own, str) and fit(own, TITLE_WIDTH)) or plan.label
            if draft.values:
                text = f"{text}: {draft.values['path']}"
        if plan.server:
            text = f"{text} ({plan.server})"
        return text if len(text) <= _SURELY_FITS else cut(text, TITLE_WIDTH)

    def _filled(self, title: str, arguments: Arguments) -> str:
        """Fill a tool's own title. One that our catalogues know is translated."""
        text = fill_template(self._template(title), arguments, self.workspace)
        if len(text) > _SURELY_FITS:
            text = self.workspace.clean(text)
        return fit(text, TITLE_WIDTH) or self.phrase("unknown_tool")

    def _locations(
        self,
        plan: ToolPlan,
        draft: DescriptionDraft,
        locations: Sequence[ToolCallLocation | str] | None,
        arguments: Arguments,
    ) -> Locations:
        if locations is not None:
            return distinct(self._declared_locations(locations, arguments))
        is_remote = plan.server and plan.by_words and not _ELSEWHERE.isdisjoint(arguments)
        return () if is_remote else draft.locations

    def _declared_locations(
        self, locations: object, arguments: Arguments
    ) -> Iterator[ToolCallLocation]:
        """Yield what can be a location. What can't is skipped: a call never fails by its description."""
        if not isinstance(locations, (list, tuple)):
            return
        for location in cast("list[object]", locations):
            found = location
            if isinstance(found, str):
                is_argument = found[:1] == "{" and found[-1:] == "}"
                found = self.workspace.locate(arguments.get(found[1:-1]) if is_argument else found)
            if isinstance(found, ToolCallLocation):
                yield found

    def _rendered(self, draft: DescriptionDraft) -> str:
        template = self._texts.get(draft.message)
        if template is None:
            template = self._template(draft.message, draft.values.get("count"))
            # The % operator takes a third of the time of `format`.
            template = _PLACEHOLDER.sub(r"%(\1)s", template.replace("%", "%%"))
            if "count" not in draft.values:
                self._texts[draft.message] = template
        title = template % draft.values
        return title if len(title) <= _SURELY_FITS else cut(title, TITLE_WIDTH)

    def _template(self, message: Message, count: object = None) -> str:
        """Return a message in the describer's language; an unknown one as it is."""
        if isinstance(message, tuple):
            return self._catalogue.ngettext(*message, count if isinstance(count, int) else 0)
        return self._catalogue.gettext(message) if message else ""


def fit_title(text: str) -> str:
    """Return a text as titles are: on one line, without controls, cut in the middle if it is too wide."""
    return fit(text, TITLE_WIDTH)
