"""Tasks in words."""

from typing import Any

import pytest

from collector.web.definitions import definition_of


@pytest.mark.parametrize(
    ("task", "path", "reads", "unit"),
    [
        ({"task_type": "Assertion", "context_path": "a.b"}, "a.b", "", ""),
        ({"task_type": "Assertion", "context_path": None}, "", "the whole context", ""),
        (
            {"task_type": "TraceAssertion", "assertion": {"SpanDuration": {}}},
            "", "the spans of the trace", "ms",
        ),
        (
            {"task_type": "AgentAssertion", "source": "spans", "assertion": {"ToolCalled": {}}},
            "", "the spans of the trace", "",
        ),
        ({"task_type": "Trajectory", "predicted": "calls"}, "calls", "", ""),
        ({"task_type": "Report", "report": "report"}, "report", "", ""),
        ({"task_type": "LLMJudge"}, "", "the record, by its prompt", ""),
    ],
)  # fmt: skip
def test_a_task_says_what_it_reads(task: dict[str, Any], path: str, reads: str, unit: str) -> None:
    found = definition_of({"description": "Why.", **task})
    assert (found.path, found.reads, found.unit) == (path, reads, unit)
    assert found.description == "Why."
