"""What a call shows: text, images, audio, resources, diffs, terminals.

One frozen struct for each kind of item. `ToolCallContent` is their base, and the place to make
them: `ToolCallContent.text("…")`, `.image(data, "image/png")`, `.diff(path, old, new)`, …

Two things are the same for all of them. `meta` is the item's `_meta`; `extra` are the keys that a
decoder does not know, stored so that they survive a round trip. A block (text, image, …) travels
inside an outer object; the other keys of that object are its `outer`.

What is *not* here: how an item looks on the wire. That is `callsheet.acp`.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from callsheet.report.errors import InvalidContent
from callsheet.report.ids import check_id
from callsheet.report.json import (
    JsonObject,
    check_path,
    check_text,
    freeze_object,
    is_list,
    is_object,
    own_objects,
)


class ToolCallContent(Struct, frozen=True, gc=False):
    """One item of a call's content. Make one with the methods below."""

    @staticmethod
    def text(text: str, *, annotations: JsonObject | None = None) -> TextContent:
        """Text, which editors render as Markdown."""
        return TextContent(text, annotations=annotations)

    @staticmethod
    def image(data: bytes | str, mime_type: str, uri: str | None = None) -> ImageContent:
        """Return an image, from bytes or from base64 text."""
        return ImageContent(_base64(data), mime_type, uri)

    @staticmethod
    def audio(data: bytes | str, mime_type: str) -> AudioContent:
        """Return a sound, from bytes or from base64 text."""
        return AudioContent(_base64(data), mime_type)

    @staticmethod
    def link(
        uri: str,
        name: str,
        *,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
    ) -> ResourceLink:
        """Return a link to a resource that the reader may fetch."""
        return ResourceLink(uri, name, title, description, mime_type, size)

    @staticmethod
    def resource(uri: str, body: str | bytes, mime_type: str | None = None) -> EmbeddedResource:
        """Return a resource with its contents: text if `body` is a `str`, a blob if it is `bytes`."""
        if isinstance(body, bytes):
            return EmbeddedResource(uri, blob=_base64(body), mime_type=mime_type)
        return EmbeddedResource(uri, body, mime_type=mime_type)

    @staticmethod
    def diff(
        path: str, old: str | None, new: str | None, *, old_path: str | None = None
    ) -> DiffContent:
        """Return a change of one text file.

        Args:
            path: The file.
            old: The text before; None for a file that is created.
            new: The text after; None for a file that is deleted.
            old_path: Where the file was before, if it was moved.
        """
        return DiffContent((FileChange.of_texts(path, old, new, old_path=old_path),))

    @staticmethod
    def diffs(*changes: FileChange) -> DiffContent:
        """Changes of several files, or of ones that have no text (binary, moved, a directory)."""
        return DiffContent(changes)

    @staticmethod
    def terminal(terminal_id: str) -> TerminalContent:
        """Return a terminal, shown in place."""
        return TerminalContent(terminal_id)


class _Block(ToolCallContent, frozen=True, kw_only=True):
    annotations: JsonObject | None = None
    meta: JsonObject | None = None
    extra: JsonObject | None = None
    outer: JsonObject | None = None

    def _own(self) -> None:
        own_objects(self, "annotations", "meta", "extra", "outer")
        if self.annotations is not None:
            _check_annotations(self.annotations)


class TextContent(_Block, frozen=True):
    """Text, which editors render as Markdown."""

    text: str  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        text = self.text
        if type(text) is not str or not text.isascii():
            force_setattr(self, "text", check_text(text, "text", InvalidContent))
        if (
            self.annotations is not None
            or self.meta is not None
            or self.extra is not None
            or self.outer is not None
        ):
            self._own()


class ImageContent(_Block, frozen=True):
    """An image; `data` is base64."""

    data: str
    mime_type: str
    uri: str | None = None

    def __post_init__(self) -> None:
        _settle_texts(self, "data", "mime_type", "uri")
        _check_base64(self.data, "image data")
        _check_mime(self.mime_type)
        self._own()


class AudioContent(_Block, frozen=True):
    """A sound; `data` is base64."""

    data: str
    mime_type: str

    def __post_init__(self) -> None:
        _settle_texts(self, "data", "mime_type")
        _check_base64(self.data, "audio data")
        _check_mime(self.mime_type)
        self._own()


class ResourceLink(_Block, frozen=True):
    """A link to a resource that the reader may fetch."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        check_text(self.uri, "link uri", InvalidContent)
        check_text(self.name, "link name", InvalidContent)
        _settle_texts(self, "uri", "name", "title", "description", "mime_type")
        if self.size is not None and (type(self.size) is not int or not 0 <= self.size < 2**63):
            raise InvalidContent(f"link size {self.size!r}: a number of bytes from 0 up")
        self._own()


class EmbeddedResource(_Block, frozen=True):
    """A resource with its contents: `text`, or `blob` as base64."""

    uri: str
    text: str | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    blob: str | None = None
    mime_type: str | None = None
    resource_meta: JsonObject | None = None
    resource_extra: JsonObject | None = None

    def __post_init__(self) -> None:
        check_text(self.uri, "resource uri", InvalidContent)
        if (self.text is None) == (self.blob is None):
            raise InvalidContent(f"resource {self.uri!r}: give either text or blob")
        _settle_texts(self, "uri", "text", "blob", "mime_type")
        if self.blob is not None:
            _check_base64(self.blob, "resource blob")
        own_objects(self, "resource_meta", "resource_extra")
        self._own()


class FileChange(Struct, frozen=True, kw_only=True, gc=False):
    """What happened to one file.

    `operation` is add, modify, delete, move or copy (or a value of a future ACP). A text file has
    both texts; an added one has no `old_text`, a deleted one no `new_text`. Where the contents are
    unknown, not text, or the same before and after, both are None.
    """

    path: str
    operation: str = "modify"
    old_path: str | None = None
    old_text: str | None = None
    new_text: str | None = None
    file_type: str | None = None
    mime_type: str | None = None
    meta: JsonObject | None = None
    extra: JsonObject | None = None

    @staticmethod
    def of_texts(
        path: str, old: str | None, new: str | None, *, old_path: str | None = None
    ) -> FileChange:
        """Make the change that leads from one text to the other."""
        if old is None and new is None:
            raise InvalidContent(f"diff of {path!r}: give the old text, the new text, or both")
        if old_path is not None:
            operation = "move"
        elif old is None:
            operation = "add"
        else:
            operation = "modify" if new is not None else "delete"
        return FileChange(
            path=path, operation=operation, old_path=old_path, old_text=old, new_text=new
        )

    def __post_init__(self) -> None:
        force_setattr(self, "path", check_path(self.path, "diff path"))
        check_text(self.operation, "diff operation", InvalidContent)
        if not self.operation:
            raise InvalidContent("diff operation: is empty; use add, modify, delete, move or copy")
        if self.old_path is not None:
            force_setattr(self, "old_path", check_path(self.old_path, "diff old path"))
        if (self.operation in _WITH_OLD_PATH) != (self.old_path is not None):
            raise InvalidContent(
                f"diff of {self.path!r}: move and copy have an old path, {self.operation} "
                + ("lacks it" if self.operation in _WITH_OLD_PATH else "has none")
            )
        _settle_texts(self, "operation", "old_text", "new_text", "file_type", "mime_type")
        self._check_sides()
        own_objects(self, "meta", "extra")

    def _check_sides(self) -> None:
        old, new = self.old_text is not None, self.new_text is not None
        if (old and self.operation == "add") or (new and self.operation == "delete"):
            raise InvalidContent(
                f"diff of {self.path!r}: an added file has no old text, a deleted one no new text"
            )
        if old != new and self.operation not in ("add", "delete"):
            raise InvalidContent(
                f"diff of {self.path!r}: {self.operation} needs both texts, or none"
            )
        if old and self.old_text == self.new_text:
            force_setattr(self, "old_text", None)
            force_setattr(self, "new_text", None)


_WITH_OLD_PATH = ("move", "copy")


class DiffContent(ToolCallContent, frozen=True):
    """Changes of one or several files.

    `patch` is another agent's own patch text, stored where ours would differ from it.
    """

    changes: tuple[FileChange, ...]
    patch: str | None = None
    meta: JsonObject | None = None
    extra: JsonObject | None = None

    def __post_init__(self) -> None:
        changes = tuple(self.changes)
        if not changes:
            raise InvalidContent("diff: has no changes; give at least one FileChange")
        for change in changes:
            if not isinstance(change, FileChange):
                raise InvalidContent(f"diff: expected FileChange, got {type(change).__name__}")
        force_setattr(self, "changes", changes)
        _settle_texts(self, "patch")
        own_objects(self, "meta", "extra")


class TerminalContent(ToolCallContent, frozen=True):
    """A terminal, shown in place."""

    terminal_id: str
    meta: JsonObject | None = None
    extra: JsonObject | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "terminal_id", check_id(self.terminal_id, "terminal id"))
        own_objects(self, "meta", "extra")


BLOCK_TYPES = ("text", "image", "audio", "resource_link", "resource")


class UnknownContent(ToolCallContent, frozen=True):
    """An item of an unknown kind, stored whole."""

    raw: JsonObject

    def __post_init__(self) -> None:
        raw = freeze_object(self.raw, "content")
        force_setattr(self, "raw", raw)
        kind, inner = (
            check_text(raw.get("type"), "content type", InvalidContent),
            raw.get("content"),
        )
        if kind == "content":
            block = inner.get("type") if is_object(inner) else None
            known = not isinstance(block, str) or block in BLOCK_TYPES
        else:
            known = kind == "terminal" or (kind == "diff" and raw.get("changes") != [])
        if known:
            raise InvalidContent(f"content of type {kind}: malformed, or of a kind that is known")


ContentLike: TypeAlias = ToolCallContent | str


def to_content(value: object) -> ToolCallContent:
    """Return an item of content; plain text becomes a text item."""
    if isinstance(value, ToolCallContent):
        return value
    if isinstance(value, str):
        return TextContent(value)
    raise InvalidContent(
        f"content: expected text or an item made with ToolCallContent.…, got {type(value).__name__}"
    )


def _check_annotations(annotations: JsonObject) -> None:
    """Check annotations against ACP's schema: clients reject the whole update for an invalid one."""
    audience, priority = annotations.get("audience"), annotations.get("priority")
    if audience is not None and not (
        is_list(audience) and all(isinstance(role, str) for role in audience)
    ):
        raise InvalidContent("annotations.audience: expected a list of roles (user, assistant)")
    if priority is not None and type(priority) not in (int, float):
        raise InvalidContent("annotations.priority: expected a number")
    _check_optional(annotations.get("lastModified"), "annotations.lastModified")
    if annotations.get("_meta") is not None:
        freeze_object(annotations["_meta"], "annotations._meta")


def _settle_texts(struct: Struct, *fields: str) -> None:
    """Check the texts in these fields that are there, and keep them as plain `str`."""
    for field in fields:
        value = getattr(struct, field)
        if value is not None:
            where = f"{type(struct).__name__}.{field}"
            force_setattr(struct, field, check_text(value, where, InvalidContent))


def _base64(data: bytes | str) -> str:
    return b64encode(data).decode() if isinstance(data, bytes) else data


def _check_base64(data: object, what: str) -> None:
    text = check_text(data, what, InvalidContent)
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError as exc:
        raise InvalidContent(
            f"{what}: not base64 ({exc}); give bytes, or valid base64 text"
        ) from None


def _check_mime(mime_type: object) -> None:
    if "/" not in check_text(mime_type, "mime type", InvalidContent):
        raise InvalidContent(f"mime type {mime_type!r}: expected something like image/png")


def _check_optional(value: object, what: str) -> None:
    if value is not None:
        check_text(value, what, InvalidContent)
