"""What the official schemas say of messages: what is wrong is named, at a cost that no message can raise."""

from __future__ import annotations

from callsheet.acp.schemas import breaches

TEXT = {"type": "text", "text": "hello"}


def test_of_a_long_list_of_faults_only_the_first_are_named() -> None:
    found = breaches(1, "PromptRequest", {"sessionId": "s", "prompt": [{"type": "text"}] * 20_000})
    assert 1 <= len(found) < 100
    assert found[0].path == ("prompt", 0)
    assert "`text` is missing" in found[0].words


def test_a_fault_far_behind_in_a_list_is_found() -> None:
    prompt = [TEXT] * 5_000 + [{"type": "text"}]
    (found,) = breaches(1, "PromptRequest", {"sessionId": "s", "prompt": prompt})
    assert found.path == ("prompt", 5_000)
    assert "`text` is missing" in found.words
