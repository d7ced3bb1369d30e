"""What a file is by its first bytes, where it is no text: a name, a MIME type, an image's size."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """What a file is."""

    name: str
    mime_type: str


class Image(NamedTuple):
    """An image that models and editors can show. Its pixels are unknown where they are not told."""

    kind: Kind
    width: int | None
    height: int | None


HEAD = 1 << 16
"""First bytes that tell everything, even in a JPEG whose camera had much to say."""

UNKNOWN = Kind("binary file", "application/octet-stream")
_PNG = Kind("PNG image", "image/png")
_JPEG = Kind("JPEG image", "image/jpeg")
_GIF = Kind("GIF image", "image/gif")
_WEBP = Kind("WebP image", "image/webp")
_ISO_MEDIA = Kind("MP4 or similar media", "video/mp4")
_WAV = Kind("WAV audio", "audio/wav")

_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"%PDF-", Kind("PDF document", "application/pdf")),
    (b"PK\x03\x04", Kind("ZIP archive", "application/zip")),
    (b"PK\x05\x06", Kind("ZIP archive", "application/zip")),
    (b"\x1f\x8b", Kind("gzip data", "application/gzip")),
    (b"BZh", Kind("bzip2 data", "application/x-bzip2")),
    (b"\xfd7zXZ\x00", Kind("XZ data", "application/x-xz")),
    (b"\x28\xb5\x2f\xfd", Kind("Zstandard data", "application/zstd")),
    (b"7z\xbc\xaf\x27\x1c", Kind("7-Zip archive", "application/x-7z-compressed")),
    (b"Rar!\x1a\x07", Kind("RAR archive", "application/vnd.rar")),
    (b"\x7fELF", Kind("ELF program or library", "application/x-elf")),
    (b"MZ", Kind("Windows program or library", "application/vnd.microsoft.portable-executable")),
    (b"\xcf\xfa\xed\xfe", Kind("Mach-O program or library", "application/x-mach-binary")),
    (b"\xca\xfe\xba\xbe", Kind("Java class or Mach-O program", "application/octet-stream")),
    (b"\x00asm", Kind("WebAssembly module", "application/wasm")),
    (b"SQLite format 3\x00", Kind("SQLite database", "application/vnd.sqlite3")),
    (b"PAR1", Kind("Parquet file", "application/vnd.apache.parquet")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind("old Office document", "application/x-ole-storage")),
    (b"BM", Kind("BMP image", "image/bmp")),
    (b"II*\x00", Kind("TIFF image", "image/tiff")),
    (b"MM\x00*", Kind("TIFF image", "image/tiff")),
    (b"\x00\x00\x01\x00", Kind("icon", "image/vnd.microsoft.icon")),
    (b"OggS", Kind("Ogg media", "application/ogg")),
    (b"fLaC", Kind("FLAC audio", "audio/flac")),
    (b"ID3", Kind("MP3 audio", "audio/mpeg")),
    (b"wOFF", Kind("WOFF font", "font/woff")),
    (b"wOF2", Kind("WOFF2 font", "font/woff2")),
    (b"\x00\x01\x00\x00", Kind("TrueType font", "font/ttf")),
    (b"OTTO", Kind("OpenType font", "font/otf")),
)

_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_SCAN = 0xDA


def kind_of(head: bytes) -> Kind:
    """Say what a binary file is."""
    image = image_of(head)
    if image is not None:
        return image.kind
    if head[4:8] == b"ftyp":
        return _ISO_MEDIA
    if head.startswith(b"RIFF") and head[8:12] == b"WAVE":
        return _WAV
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), UNKNOWN)


def image_of(head: bytes) -> Image | None:
    """Say which image begins so: PNG, JPEG, GIF or WebP, by its bytes and not by its name."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return Image(_PNG, _big(head[16:20]), _big(head[20:24]))
    if head.startswith((b"GIF87a", b"GIF89a")):
        return Image(_GIF, _little(head[6:8]), _little(head[8:10]))
    if head.startswith(b"\xff\xd8\xff"):
        return Image(_JPEG, *_jpeg_size(head))
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return Image(_WEBP, *_webp_size(head))
    return None


def _big(data: bytes) -> int | None:
    return int.from_bytes(data, "big") or None


def _little(data: bytes) -> int | None:
    return int.from_bytes(data, "little") or None


def _jpeg_size(head: bytes) -> tuple[int | None, int | None]:
    """Walk the segments up to the one that says how large the frame is."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # filling
            at += 1
            continue
        if marker in _JPEG_FRAMES:
            return _big(head[at + 7 : at + 9]), _big(head[at + 5 : at + 7])
        if marker == _JPEG_SCAN:
            break
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None, None


def _webp_size(head: bytes) -> tuple[int | None, int | None]:
    form = head[12:16] if len(head) >= 30 else b""
    if form == b"VP8X":
        wide, high = int.from_bytes(head[24:27], "little"), int.from_bytes(head[27:30], "little")
        return wide + 1, high + 1
    if form == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 ":
        wide, high = int.from_bytes(head[26:28], "little"), int.from_bytes(head[28:30], "little")
        return wide & 0x3FFF or None, high & 0x3FFF or None
    return None, None


def is_document(head: bytes) -> bool:
    """Whether a file is a document that has lines, and yet is no text."""
    return head.startswith(b"%PDF-")
