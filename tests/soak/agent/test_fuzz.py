"""A short run of what `make fuzz` does at length."""

from __future__ import annotations

import pytest

from tests.support.agent_fuzz import fuzz
from tests.support.processes import linux
from tests.support.sizes import sized

MESSAGES = sized(1500, 700)


@linux
@pytest.mark.parametrize("version", [1, 2])
def test_no_mutated_message_ends_the_agent_or_goes_unanswered(
    version: int, request: pytest.FixtureRequest
):
    seed = int(request.config.option.hypothesis_seed)
    done = fuzz(MESSAGES, version, seed)
    assert done.messages == MESSAGES
    assert done.answers > MESSAGES * 8 // 15
    assert len(done.errors) >= 4, done.errors
