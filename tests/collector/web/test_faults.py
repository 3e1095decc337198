"""The page of faults: what a profile would see in the traces that passed it."""

from pathlib import Path

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.model.otlp import encode_request
from tests.collector.conftest import Start
from tests.collector.web.conftest import PROTOBUF
from tests.scouter.evaluate.mutate.desk import traces


def test_the_faults_of_stored_traces(start: Start, tmp_path: Path) -> None:
    spoke = AgentAssertionTask(
        "spoke", AgentAssertion.response_is_blank(), False, "Equals", source="spans"
    )
    profile = AgentEvalProfile([spoke], alias="desk", watch=Watch())
    service = start(profile=[str(profile.save_to_json(tmp_path / "desk.json"))])
    empty = service.http.get("/profile/faults?profile=desk")
    assert "no stored trace has passed this profile yet" in empty.text

    data = encode_request(traces()).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    service.wait_for(16)
    shown = service.http.get("/profile/faults?profile=desk")

    assert shown.status_code == 200
    assert "<strong>1 of 12 faults are seen</strong>, in 16 good traces." in shown.text
    assert "proposed: no_repeated_calls (10 of 10)" in shown.text
    assert "- id: no_repeated_calls" in shown.text
    assert "/profile/faults?profile=desk" in service.http.get("/profile/tasks?profile=desk").text


def test_a_profile_that_is_not_there(start: Start) -> None:
    assert start().http.get("/profile/faults?profile=nobody").status_code == 404
