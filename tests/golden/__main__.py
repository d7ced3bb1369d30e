"""Write the golden outputs anew: `python -m tests.golden`."""

from __future__ import annotations

from . import corpus, files, lines, recordings


def main() -> None:
    """Make all golden outputs, and write those that are others than before."""
    made = recordings.found()
    for name, paths in made.items():
        _write(name, recordings.make(name, paths))
    if recordings.shared() is None:
        print(
            "there are no shared recordings beside this checkout: their golden outputs stay as they are"
        )
    else:
        for name in set(files.names("recordings")) - made.keys():
            _remove(name)
    for name in lines.FILES:
        _write(name, lines.make(name))
    for name in set(files.names("lines")) - set(lines.FILES):
        _remove(name)
    for name in corpus.FILES:
        _write(name, corpus.make(name))


def _write(name: str, items: files.Items) -> None:
    changed = files.write(name, items)
    print(f"{name}: {len(items)} outputs, {'written' if changed else 'the same as before'}")


def _remove(name: str) -> None:
    for file in files.DATA.glob(f"{name}.*"):
        file.unlink()
    print(f"{name}: removed")


if __name__ == "__main__":
    main()
