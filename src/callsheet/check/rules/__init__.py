"""All rules: the functions of the modules here, together with their texts in `rules.toml`.

To add a rule, write a function with `@rule("category/name", EventType)` in the module of its subject, and
its texts under the same id in `rules.toml`; then run `make docs`, which lists it in docs/reference/rules.md.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import import_module
from pkgutil import get_data  # importlib.resources takes long to import

from callsheet.check.finding import CHECKS, CheckRule

for _name in [
    "clients",
    "completeness",
    "completeness_files",
    "lifecycle",
    "order",
    "recording",
    "safety",
    "schema",
    "size",
]:
    import_module(f"{__name__}.{_name}")  # which registers its functions in `CHECKS`


def _load() -> Iterator[CheckRule]:
    table = tomllib.loads((get_data(__name__, "rules.toml") or b"").decode())
    if lone := CHECKS.keys() ^ table.keys():
        raise LookupError(f"a function or its texts in rules.toml are missing: {sorted(lone)}")
    for rule_id, texts in table.items():
        for_clients = tuple[str, ...](texts.pop("clients", ()))
        yield CheckRule(id=rule_id, clients=for_clients, **CHECKS[rule_id], **texts)


RULES: tuple[CheckRule, ...] = tuple(_load())
"""In the order of `rules.toml`, which is that of findings about one event, and of all lists."""
