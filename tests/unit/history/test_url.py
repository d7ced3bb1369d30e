"""Where a history is: URLs, the user's directory, the environment; and that no password is ever shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.history import BadUrl, History, chosen_url, default_file, store_at
from callsheet.history.url import check_url, file_of, without_password

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:////data/h.sqlite", "/data/h.sqlite"),
        ("sqlite:////data/a%20b%3F.db", "/data/a b?.db"),
        ("sqlite:////data/ü.db", "/data/ü.db"),
        ("/data/h.sqlite", "/data/h.sqlite"),
    ],
)
def test_a_url_names_a_file(url: str, file: str) -> None:
    assert file_of(url) == Path(file)


def test_relative_paths_begin_here_and_a_tilde_is_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert file_of("sqlite:///h.db") == file_of("h.db") == tmp_path / "h.db"
    assert file_of("sqlite:///~/h.db") == file_of("~/h.db") == tmp_path / "home" / "h.db"


@pytest.mark.parametrize(
    "url",
    [
        "", "  ", "a\0b", "sqlite://", "sqlite:///", "sqlite://h.db", "sqlite:////data/", "sqlite:h.db",
        "sqlite3:///x", "mysql://me@host/db", "http://x/y", "postgresql:host/db", "postgresql://host",
        "postgresql://host/", "postgresql://host:port/db", "postgresql://host:99999/db",
        "postgresql://[::1/db", f"host=db password={SECRET}", f"postgresql://me:{SECRET}/2@host/db",
        f"mysql://me:{SECRET}@host/db", f"sqlite://me:{SECRET}@host", f"postgresql:me:{SECRET}@host/db",
        f"postgresql://me:a@{SECRET}:1@host:x/db", f"postgresql://host:0x/db?password={SECRET}",
    ],
)  # fmt: skip
def test_a_wrong_url_is_refused_with_what_would_be_right_and_no_password(url: str) -> None:
    for refuse in (check_url, store_at, History, chosen_url):
        with pytest.raises(BadUrl) as error:
            refuse(url)
        assert "postgresql://USER@HOST/DATABASE" in str(error.value)
        assert "sqlite:///PATH" in str(error.value)
        assert SECRET not in str(error.value)


signs = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)


@given(signs, signs, st.booleans(), st.sampled_from(["host", "[::1]:5432", "", "a,b"]), signs)
def test_no_password_is_ever_shown(
    before: str, after: str, quoted: bool, host: str, user: str
) -> None:
    secret = before + SECRET + after
    secret = quote(secret, safe="") if quoted else secret
    user = quote(user, safe="")
    for url in (
        f"postgresql://{user}:{secret}@{host}/db",
        f"postgres://{user}:{secret}@{host}/db?sslmode=require",
        f"postgresql://{host}/db?user=me&password={quote(secret, safe='')}&sslmode=require",
        f"postgresql://{user}@{host}/db?sslpassword={quote(secret, safe='')}",
        f"{user}:{secret}@{host} password={secret}",
    ):
        assert SECRET not in without_password(url)
    assert SECRET not in without_password(f"://{SECRET}@host password=//{SECRET}")


def test_what_is_no_password_is_shown() -> None:
    for url in ("postgresql://me@host:5432/db?sslmode=require", "postgresql:///db", "/a/b@c.db"):
        assert without_password(url) == url
    assert without_password("postgresql://me:x@h:1/db?a=b") == "postgresql://me:…@h:1/db?a=b"


def test_the_flag_holds_then_the_environment_then_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    default = f"sqlite:///{tmp_path}/callsheet/history.sqlite"
    for value, url in (("", default), ("/x.db", "/x.db")):
        monkeypatch.setenv("CALLSHEET_HISTORY", value)
        assert chosen_url() == url
    assert file_of(default) == default_file()
    assert chosen_url("/y.db") == "/y.db"
    for off in ("off", "OFF", "none", "0", "false", " no "):
        assert chosen_url(off) is None
        monkeypatch.setenv("CALLSHEET_HISTORY", off)
        assert chosen_url() is None


def test_the_default_is_found_whatever_the_directory_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", f"{tmp_path}/100%41 ?#é")
    monkeypatch.delenv("CALLSHEET_HISTORY", raising=False)
    url = chosen_url()
    assert url is not None
    assert file_of(url) == default_file()


def test_a_directory_for_data_that_is_relative_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert default_file().is_relative_to("/home/me")
