"""Tests that need a program: skipped with the reason where it is missing, and a failure where CI=true."""

from __future__ import annotations

import os
import shutil

import pytest


def needs(program: str) -> pytest.MarkDecorator:
    """Mark a test that can't run without `program`."""
    missing = shutil.which(program) is None and os.environ.get("CI") != "true"
    return pytest.mark.skipif(missing, reason=f"{program} is not on this machine")
