"""What a tap is to do."""

from __future__ import annotations

from msgspec import Struct


class TapSettings(Struct, frozen=True, kw_only=True):
    """What a tap is to do, besides passing everything on.

    - `repair`: make reports of calls complete and true, and send them as the smallest updates.
    - `redact`: take secrets out of what the client is shown, and of what is kept.
    - `bound`: keep messages about calls within limits; what is cut is kept in files.
    - `locale`: the language of titles and texts of ours; else that of the environment.
    """

    repair: bool = True
    redact: bool = True
    bound: bool = True
    locale: str | None = None
