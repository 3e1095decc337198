"""Evaluations that become scenarios, asked of a scripted collector."""

from collections.abc import Iterator
from typing import Any

import pytest

from scouter.client.client import ScouterClient
from scouter.client.harvest import Wanted, harvest
from tests.support.served import Say, Script, run_script


@pytest.fixture
def script() -> Iterator[Script]:
    with run_script() as running:
        yield running


def verdict(uid: str, outcome: str, second: int, revision: int = 1) -> dict[str, Any]:
    at = f"2026-01-01T00:00:{second:02d}Z"
    return {
        "evaluation_id": f"{uid} {revision}", "scope": "record", "record_id": "", "uid": uid,
        "profile": "p", "profile_version": "d", "revision": revision, "outcome": outcome,
        "completeness": "complete", "created_at": at, "evaluated_at": at, "tasks": [],
    }  # fmt: skip


def record(uid: str) -> Say:
    body: dict[str, Any] = {
        "uid": uid, "record_id": "", "session_id": "", "trace_id": None, "profile": "p",
        "state": "evaluated", "created_at": "2026-01-01T00:00:00Z",
        "received_at": "2026-01-01T00:00:00Z", "context": {"input": "why?"}, "evaluations": [],
    }  # fmt: skip
    return Say(body=body)


@pytest.mark.parametrize("is_sample", [False, True])
def test_what_is_judged_again_between_two_lists_is_there_once(
    script: Script, is_sample: bool
) -> None:
    """u1 failed when the first list was made, and had errored when the second was."""
    failed = [verdict("u2", "failed", 2), verdict("u1", "failed", 1)]
    errored = [verdict("u1", "errored", 3, revision=2)]
    lists = [Say(body={"items": each, "next_cursor": None}) for each in (failed, errored)]
    profiles = Say(body={"items": [], "next_cursor": None})
    script.answers = [*lists, record("u2"), profiles, record("u1")]
    with ScouterClient(script.url) as client:
        found = harvest(client, Wanted(failed=True, is_sample=is_sample, limit=3))
    assert [(each.scenario.id, each.evaluation.revision) for each in found.items] == [
        ("u2", 1),
        ("u1", 2),
    ]
    assert script.answers == []
