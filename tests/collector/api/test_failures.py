"""Groups of results that did not pass."""

import html
from pathlib import Path
from typing import Any

import pytest

from collector.api.task_results import Part, Way, groups_of, way_of
from collector.store.rows import TaskRow
from collector.store.traces import Step
from scouter.evaluate.outcome import Outcome
from scouter.model.otlp import encode_request
from scouter.model.span import Span, StatusCode
from tests.collector.conftest import Start
from tests.contracts.store_data import evaluation, span


def bad(*items: tuple[str, str, int], failures: int, results: int) -> Part:
    """Failed results by message and trace, evaluated at a time; the first one is the newest."""
    return Part(
        bad=[
            (
                evaluation(f"u{at_ns}", trace_id=trace, evaluated_ns=at_ns),
                TaskRow(
                    task_id="t1", task_type="Assertion", outcome=Outcome.FAILED, message=message
                ),
            )
            for message, trace, at_ns in items
        ],
        failures=failures,
        results=results,
    )


@pytest.mark.parametrize(
    ("steps", "way"),
    [
        ([], Way((), False, "")),
        ([Step("a", False, "", 1), Step("a", False, "", 2), Step("b", False, "", 3)],
         Way(("a", "b"), False, "")),
        ([Step("a", False, "", 1), Step("b", True, "Timeout", 3), Step("c", False, "", 4)],
         Way(("a", "b"), True, "Timeout")),
        ([Step("", True, "Outer", 9), Step("a", True, "Inner", 5)], Way(("a",), True, "Inner")),
        ([Step(f"t{n}", False, "", n) for n in range(14)],
         Way(("…", *(f"t{n}" for n in range(2, 14))), False, "")),
    ],
    ids=["nothing", "repeated", "up to the failure", "the inner error", "long"],
)  # fmt: skip
def test_the_way_of_a_trace(steps: list[Step], way: Way) -> None:
    assert way_of(steps) == way


def test_messages_that_differ_in_values_are_one_group() -> None:
    since = bad(
        ("'n' is 3, expected \"a\"", "x", 9), ("'n' is 4.5, expected \"b\"", "x", 8),
        ("'m' is 3, expected \"a\"", "x", 7), failures=3, results=12,
    )  # fmt: skip
    large, small = groups_of(since, None, {})
    assert (large.since, small.since, large.share_before) == (2, 1, None)
    assert large.share_since == pytest.approx(2 / 12)
    assert large.message == "'n' is 3, expected \"a\""
    assert [each.uid for each in large.examples] == ["u9", "u8"]
    assert (large.first_seen.microsecond, large.last_seen >= large.first_seen) == (0, True)


def test_other_ways_to_one_message_are_other_groups() -> None:
    since = bad(("m", "x", 9), ("m", "y", 8), ("m", "y", 7), failures=3, results=3)
    ways = {"x": Way(("a",), True, "Timeout"), "y": Way(("a", "b"), False, "")}
    first, second = groups_of(since, None, ways)
    assert (first.tools, first.failed_tool, first.since) == (("a", "b"), False, 2)
    assert (second.tools, second.error_type, second.since) == (("a",), "Timeout", 1)


def test_shares_before_and_since_stand_for_all_results() -> None:
    """Of 40 failures 2 were looked at, both of the group: 40 of 100. Before: 1 of 50."""
    since = bad(("m", "x", 9), ("m", "x", 8), failures=40, results=100)
    before = bad(("m", "x", 3), failures=1, results=50)
    (group,) = groups_of(since, before, {})
    assert (group.share_since, group.share_before) == (pytest.approx(0.4), pytest.approx(0.02))
    (new,) = groups_of(since, bad(failures=0, results=50), {})
    assert new.share_before == 0
    (unknown,) = groups_of(since, bad(failures=0, results=0), {})
    assert unknown.share_before is None


def tool(number: int, trace: int, name: str, **fields: Any) -> Span:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    error = fields.pop("error", None)
    if error:
        attributes["error.type"] = error
    return span(
        number, trace_id=f"{trace:032x}", start_ns=number, end_ns=number + 1, attributes=attributes,
        status=StatusCode.ERROR if error else StatusCode.UNSET,
    )  # fmt: skip


def test_failures_are_grouped_by_their_tools(start: Start, answers: Path) -> None:
    """Three wrong answers after a lookup that timed out, one after a search, one right answer."""
    service = start(profile=[str(answers)])
    rows = [
        *(tool(n, n, "lookup", error="TimeoutError") for n in (1, 2, 3)),
        tool(4, 4, "search"),
        tool(5, 5, "lookup"),
    ]
    headers = {"Content-Type": "application/x-protobuf"}
    data = encode_request(rows).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=headers).is_success
    for n, answer in enumerate((1, 2, 3, 4, 42), start=1):
        service.send(
            {"uid": f"u{n}", "profile": "answers", "context": {"answer": answer},
             "trace_id": f"{n:032x}"}
        )  # fmt: skip
    service.wait_for(5)
    query = {"profile": "answers", "task_id": "right"}
    found = service.get("/api/v1/tasks/failures", **query)
    assert (found["looked_at"], found["is_partial"]) == (4, False)
    timeout, search = found["items"]
    assert (timeout["tools"], timeout["failed_tool"]) == (["lookup"], True)
    assert (timeout["error_type"], timeout["since"]) == ("TimeoutError", 3)
    assert timeout["share_since"] == pytest.approx(0.6)
    assert {each["uid"] for each in timeout["examples"]} == {"u1", "u2", "u3"}
    assert (search["tools"], search["error_type"], search["since"]) == (["search"], "", 1)

    split = "2100-01-01T00:00:00Z"
    (early, other) = service.get("/api/v1/tasks/failures", **query, split=split)["items"]
    assert (early["before"], early["since"]) == (3, 0)
    assert (early["share_before"], early["share_since"]) == (pytest.approx(0.6), None)
    assert other["before"] == 1
    # A fall of long ago, while the last hour is requested: nothing before the hour counts.
    none = service.get("/api/v1/tasks/failures", **query, since=split, split="2001-01-01T00:00:00Z")
    assert (none["items"], none["looked_at"]) == ([], 0)

    text = html.unescape(service.http.get("/task/failures?profile=answers&task=right").text)
    assert "3 × " in text
    assert "after TimeoutError" in text
    assert "Tools: lookup (failed)" in text
    assert "60.0% of all results" in text
    gone = service.http.get("/api/v1/tasks/failures?profile=none&task_id=right")
    assert gone.status_code == 404
