"""A record and its profile, from a scripted collector."""

from typing import Any

from scouter.client.client import ScouterClient
from scouter.client.models.evaluations import Evaluation
from scouter.client.models.records import Profile, ProfileItem, Record
from scouter.client.record_look import look_at_record
from tests.support.answers import whole
from tests.support.served import Say, run_script

_AT = "2026-01-01T00:00:00Z"


def test_a_record_is_shown_without_the_profile_of_a_later_version() -> None:
    evaluation = whole(Evaluation, **{
        "evaluation_id": "e", "scope": "record", "record_id": "", "uid": "u", "profile": "p",
        "profile_version": "d", "revision": 1, "outcome": "failed", "completeness": "complete",
        "created_at": _AT, "evaluated_at": _AT, "tasks": [],
    })  # fmt: skip
    record = whole(Record, **{
        "uid": "u", "record_id": "", "session_id": "", "trace_id": None, "profile": "p",
        "state": "evaluated", "created_at": _AT, "received_at": _AT, "context": {},
        "evaluations": [evaluation],
    })  # fmt: skip
    named: dict[str, Any] = {
        "name": "p", "alias": "p", "uid": "v", "profile_version": "d", "registered_at": _AT,
        "tasks": ["t"],
    }  # fmt: skip
    body = {"alias": "p", "tasks": [{"id": "t", "task_type": "Prophecy"}]}
    profiles = {"items": [whole(ProfileItem, **named)], "next_cursor": None}
    with run_script() as script, ScouterClient(script.url) as client:
        script.answers = [
            Say(body=record), Say(body=profiles), Say(body=whole(Profile, **named, body=body)),
        ]  # fmt: skip
        look = look_at_record(client, "u")
    assert (look.record.uid, look.paths) == ("u", {})
    assert look.missing.startswith("the profile is of another version of Scouter: tasks.0: ")
    assert "Prophecy" in look.missing
