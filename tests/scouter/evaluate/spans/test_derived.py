"""Records that are derived from traces."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scouter.errors import DataError
from scouter.evaluate.spans.derived import derive_record, derived_uid
from scouter.model.otlp import encode_request
from scouter.model.span import AttributeValue, Resource, Span
from tests.scouter.evaluate.spans_support import TRACE, span


def chat(id: int, questions: list[str], said: str, at: tuple[float, float]) -> Span:
    """A model call in the words of OpenTelemetry's conventions."""

    def message(role: str, text: str) -> dict[str, object]:
        return {"role": role, "parts": [{"type": "text", "content": text}]}

    return span(
        id,
        "chat",
        parent=1,
        at=at,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps([message("user", text) for text in questions]),
            "gen_ai.output.messages": json.dumps([message("assistant", said)]),
        },
    )


ROOT = span(1, "invoke_agent geographer", at=(0, 50), attributes={"session.id": "s-1"})


def test_question_answer_and_session_are_the_traces() -> None:
    """The question is this turn's, not one of the turns before; the answer is the last one."""
    spans = [
        chat(3, ["Hi", "Capital of Australia?", "Sure?"], "Canberra.", (20, 30)),
        chat(2, ["Hi", "Capital of Australia?"], "Let me look.", (5, 15)),
        ROOT,
    ]
    record = derive_record(spans)

    assert record.context == {"question": "Capital of Australia?", "answer": "Canberra."}
    assert (record.session_id, record.trace_id, record.created_ns) == ("s-1", TRACE, 0)
    assert record.tag_map == {"service.name": "agent"}
    assert derive_record(spans[::-1]).uid == record.uid == derived_uid(TRACE)


def test_definitions_of_tools_are_given_to_judges() -> None:
    """In a record of a trace, so that a judge's prompt can have them, live and offline."""
    tools = [{"name": "search", "parameters": {"type": "object"}}]
    model = chat(2, ["Hi"], "Hello.", (5, 15))
    defined = replace(
        model, attributes={**model.attributes, "gen_ai.tool.definitions": json.dumps(tools)}
    )
    assert derive_record([ROOT, defined]).context == {
        "question": "Hi", "answer": "Hello.", "tool_definitions": tools,
    }  # fmt: skip


def test_the_session_is_that_of_the_trace() -> None:
    """The root's session counts before those of spans below it; see `trace_session`."""
    child = span(2, "chat", parent=1, attributes={"gen_ai.conversation.id": "c-9"})
    assert derive_record([ROOT, child]).session_id == "s-1"


def test_what_spans_do_not_tell_is_not_in_the_context() -> None:
    """So a task that reads it is errored; a null could pass."""
    record = derive_record([span(1, "GET /", at=(0, 1))])
    assert record.context == {}
    assert not record.names_session


def test_uids_differ_by_trace_and_profile() -> None:
    """They are ids that the collector takes, and each is the same every time."""
    uids = {derived_uid(TRACE), derived_uid(TRACE, "a"), derived_uid(TRACE, "b"),
            derived_uid("1" * 32)}  # fmt: skip
    assert len(uids) == 4
    assert all(re.fullmatch("derived:[0-9a-f]{32}", uid) for uid in uids)
    assert derive_record([ROOT], profile="a").uid == derived_uid(TRACE, "a")


def test_a_record_is_of_one_trace() -> None:
    """None, or several, is the caller's mistake."""
    with pytest.raises(DataError, match="are of 0"):
        derive_record([])
    with pytest.raises(DataError, match="are of 2"):
        derive_record([ROOT, span(1, "other", trace="1" * 32)])


def test_tags_name_service_version_and_environment() -> None:
    """As those of a record that came as a log record."""
    said = {"service.name": "desk", "service.version": "2", "deployment.environment.name": "prod",
            "host.name": "x"}  # fmt: skip
    root = Span(trace_id=TRACE, span_id="01" * 8, name="r", start_ns=1, end_ns=2,
                resource=Resource(attributes=said))  # fmt: skip
    assert derive_record([root]).tag_map == {
        "service.name": "desk", "service.version": "2", "deployment.environment.name": "prod"
    }  # fmt: skip


OUT = "llm.output_messages.0.message.content"


@pytest.mark.parametrize(
    ("said", "marks", "context"),
    [
        pytest.param("It is Oslo.", (), {"question": "?", "answer": "It is Oslo."}, id="whole"),
        pytest.param("It is Oslo. [truncated]", (), {"question": "?"}, id="its-end-says-so"),
        pytest.param("It is <truncated 120 chars>", (), {"question": "?"}, id="with-a-number"),
        pytest.param("It is Oslo.", (OUT,), {"question": "?"}, id="its-span-says-so"),
        pytest.param("It is Oslo.", ("llm.input_messages.0.message.content", "note"),
                     {"question": "?", "answer": "It is Oslo."}, id="something-else-was-cut"),
    ],
)  # fmt: skip
def test_an_answer_that_was_cut_is_not_reported(
    said: str, marks: tuple[str, ...], context: dict[str, str]
) -> None:
    """Kind: a cut value is judged as if it were whole."""
    attributes: dict[str, AttributeValue] = {
        "openinference.span.kind": "LLM", OUT: said,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "?",
    }  # fmt: skip
    if marks:
        attributes["scouter.truncated"] = marks
    assert derive_record([span(1, "call", at=(0, 9), attributes=attributes)]).context == context


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two traces in one file: one with an answer, one without."""
    page = (Path(__file__).parents[4] / "docs/profiles.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    profile = next(each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    spans = [ROOT, chat(2, ["Hi"], "Hello.", (5, 15)), span(3, "work", trace="1" * 32)]
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(profile, encoding="utf-8")
    Path("traces.jsonl").write_bytes(encode_request(spans).SerializeToString())
    names: dict[str, Any] = {}
    exec(compile(example, "profiles.md", "exec"), names)  # noqa: S102 our own page
    rows = names["results"].aligned_results
    assert [(row.record_uid, str(row.outcome)) for row in rows] == [
        (derived_uid(TRACE), "passed"), (derived_uid("1" * 32), "errored"),
    ]  # fmt: skip
