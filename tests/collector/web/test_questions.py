"""A record that nobody gave an id is known by the user's question, wherever it is named."""

from pathlib import Path

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.spans.derived import derived_uid
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import Resource
from tests.collector.conftest import Start
from tests.collector.web.conftest import PROTOBUF
from tests.collector.web.test_views import view
from tests.contracts.store_data import TRACE, span


def test_a_derived_record_is_known_by_its_question(start: Start, tmp_path: Path) -> None:
    right = AssertionTask("right", "answer", "Friday", ComparisonOperator.Equals)
    watch = Watch(match=WatchMatch(service="desk"))
    profile = AgentEvalProfile([right], alias="desk", watch=watch)
    service = start(profile=[str(profile.save_to_json(tmp_path / "desk.json"))])
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": '[{"role": "user", "content": "Where is <my> order?"}]',
        "gen_ai.output.messages": '[{"role": "assistant", "content": "Monday"}]',
    }
    resource = Resource(attributes={"service.name": "desk"})
    row = span(1, trace_id=TRACE, parent_span_id=None, attributes=chat, resource=resource)
    data = encode_request([row]).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    service.send(
        {"uid": "sent", "record_id": "mine", "profile": "desk", "context": {"input": "So?"}}
    )
    service.wait_for(2)
    uid = derived_uid(TRACE, "desk")
    said = {"uid": uid, "task_id": "right", "label": False, "rater": "ada"}
    assert service.http.post("/api/v1/labels", json=said).is_success

    named, of_task = ">Where is &lt;my&gt; order?</a>", "profile=desk&task=right"
    for address in (
        "/records", "/evaluations", "/records?text=order", f"/traces/{TRACE}", "/labels",
        f"/labels/records?{of_task}", f"/task/failures?{of_task}",
    ):  # fmt: skip
        text = view(service, address)
        assert named in text or named.replace(">W", ">desk: W") in text, address
        assert f">{uid}<" not in text, address
    assert ">mine</a>" in view(service, "/records")
    assert ">So?</a>" not in view(service, "/records")
    heading = "Where is &lt;my&gt; order?"
    assert f"<h1>Record {heading}" in view(service, f"/records/{uid}")
    queue = view(service, f"/labels/queue?{of_task}&rater=ben&order=random")
    assert ("<h2 hx-ignore>mine</h2>" in queue) or (f"<h2 hx-ignore>{heading}</h2>" in queue)
    own = view(service, f"/labels/queue?{of_task}&rater=ada&uid={uid}")
    assert f"<h2 hx-ignore>{heading}</h2>" in own
    assert f"<span>{heading} " in own
