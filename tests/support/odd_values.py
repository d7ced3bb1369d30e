"""Python values of every kind, well-behaved and not, for the tests of guard."""

from __future__ import annotations

import collections
import dataclasses
import enum
import types
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
from hypothesis import strategies as st


class Colour(enum.Enum):
    RED = "red"
    ODD = object()


class Level(enum.IntFlag):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"


@dataclasses.dataclass
class Point:
    x: Any = 1
    secret: str = dataclasses.field(default="hush", repr=False)


@dataclasses.dataclass(slots=True)
class Unset:
    x: int
    y: int = dataclasses.field(init=False)


class Pair(NamedTuple):
    left: int
    right: Any


class Struct(msgspec.Struct, rename="camel"):
    file_path: Path
    line_no: int | msgspec.UnsetType = msgspec.UNSET


@attrs.define
class Attrs:
    x: int
    secret: str = attrs.field(default="hush", repr=False)


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    path: Path
    password: pydantic.SecretStr = pydantic.SecretStr("hush")
    hidden: int = pydantic.Field(default=1, exclude=True)
    other: Any = None


class Raises:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class RaisesInStr(Raises):
    def __repr__(self) -> str:
        return "from repr"


class Liar:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class Meta(type):
    @property
    def __name__(cls) -> Any:  # type: ignore[override]
        raise RuntimeError("no name")


class Nameless(metaclass=Meta):
    pass


class Lazy(collections.abc.Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise OSError("gone")

    def __iter__(self) -> Any:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Endless(collections.abc.Sequence[int]):
    def __getitem__(self, index: Any) -> int:
        return 7

    def __len__(self) -> int:
        return 2**62


class DumpsItself:
    def model_dump(self, **_: Any) -> Any:
        return self


class DumpsAnother:
    def model_dump(self, **_: Any) -> Any:
        return DumpsAnother()


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "another"


def cycle() -> Any:
    value: dict[str, Any] = {"x": 1}
    value["again"] = [value]
    return value


def model_cycle() -> Any:
    model = Model(path=Path("/x"))
    model.other = model
    return model


def depth(value: Any) -> int:
    if not isinstance(value, (dict, list)):
        return 0
    items = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, items), default=0)


any_text = st.text(st.characters(), max_size=20)
"""Lone surrogates included."""

odd_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**1100), 2**1100), st.floats(),
    any_text, st.binary(max_size=20), st.binary(max_size=20).map(bytearray), st.dates(),
    st.datetimes(), st.times(), st.timedeltas(), st.uuids(), st.decimals(), st.fractions(),
    st.complex_numbers(), st.sampled_from([*Colour, *Level, Word.YES]), any_text.map(Text),
    st.builds(Raises), st.builds(object), st.builds(Liar), st.builds(Lazy),
    st.builds(lambda: iter("abc")), st.builds(cycle), st.builds(Path), st.just(int),
)  # fmt: skip
keys = st.one_of(any_text, st.integers(), st.booleans(), st.none(), st.binary(max_size=5))
keys = st.one_of(keys, st.tuples(keys, keys), st.builds(Raises))
python_values = st.recursive(
    odd_scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(collections.deque),
        st.dictionaries(keys, inner, max_size=4),
        st.sets(keys, max_size=4),
        st.builds(Point, inner),
        st.builds(Pair, st.integers(), inner),
        st.builds(lambda other: Model(path=Path("/x"), other=other), inner),
        st.builds(lambda x: types.SimpleNamespace(x=x), inner),
    ),
    max_leaves=15,
)
