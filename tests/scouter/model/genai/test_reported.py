"""Evidence that a model's call requested no tool: what a call tells, and what it leaves open."""

import pytest

from scouter.model.agent_work import why_unreported
from scouter.model.genai.work import agent_work
from scouter.model.span import AttributeValue, StatusCode
from tests.scouter.evaluate.spans_support import span

TEXT = '[{"role": "assistant", "parts": [{"type": "text", "content": "Oslo"}]}]'
CALL = '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "atlas"}]}]'
FINISH, OUTPUT = "gen_ai.response.finish_reasons", "gen_ai.output.messages"


@pytest.mark.parametrize(
    ("given", "failed", "is_known"),
    [
        pytest.param({}, False, False, id="nothing"),
        pytest.param({OUTPUT: TEXT}, False, True, id="a text"),
        pytest.param({OUTPUT: CALL}, False, True, id="a call that is reported"),
        pytest.param({FINISH: ("stop",)}, False, True, id="stop"),
        pytest.param({FINISH: ("end_turn",)}, False, True, id="end_turn"),
        pytest.param({FINISH: ("COMPLETE",)}, False, True, id="Cohere's complete"),
        pytest.param({FINISH: ("FINISHED",)}, False, True, id="Titan's finished"),
        pytest.param({FINISH: ("tool_calls",)}, False, False, id="tool_calls without the call"),
        pytest.param({FINISH: ("length",)}, False, False, id="length"),
        pytest.param({FINISH: ("MAX_TOKENS",)}, False, False, id="max tokens"),
        pytest.param({FINISH: ("content_filter",)}, False, False, id="content filter"),
        pytest.param({FINISH: ("error",)}, False, False, id="error as a reason alone"),
        pytest.param({FINISH: ("unknown",)}, False, False, id="unknown"),
        pytest.param({FINISH: ("pause_turn",)}, False, False, id="a word of a provider's own"),
        pytest.param({FINISH: ("stop", "length")}, False, False, id="one of two choices was cut"),
        pytest.param({FINISH: ("length",), OUTPUT: TEXT}, False, True, id="length beside its text"),
        pytest.param({FINISH: ("error",), OUTPUT: TEXT}, False, True, id="error beside its text"),
        pytest.param({}, True, True, id="failed with nothing back"),
        pytest.param({"error.type": "429"}, False, True, id="an error's type with nothing back"),
        pytest.param({FINISH: ("error",)}, True, True, id="failed, and says so twice"),
        pytest.param({OUTPUT: TEXT}, True, True, id="failed behind a part of its text"),
        pytest.param({FINISH: ("length",)}, True, False, id="failed behind an end"),
        pytest.param({FINISH: ("tool_calls",)}, True, False, id="failed behind a call"),
        pytest.param({"gen_ai.response.id": "r"}, True, False, id="failed behind a response"),
        pytest.param(
            {"gen_ai.usage.output_tokens": 7}, True, False, id="failed after it wrote something"
        ),
        pytest.param(
            {FINISH: ("MALFORMED_FUNCTION_CALL",)}, False, False, id="a call that was malformed"
        ),
        pytest.param(
            {FINISH: ("malformed_tool_use",), OUTPUT: TEXT}, False, False,
            id="a call that was malformed beside a text",
        ),
        pytest.param(
            {FINISH: ("STOP",), "gen_ai.provider.name": "gcp.gemini"}, False, False,
            id="Google's stop, which it says either way",
        ),
        pytest.param(
            {"gen_ai.provider.name": "gcp.gemini"}, True, True, id="a failed request to Google"
        ),
    ],
)  # fmt: skip
def test_what_tells_that_no_tool_was_requested(
    given: dict[str, AttributeValue], failed: bool, is_known: bool
) -> None:
    """A call that may have requested a tool is taken for one that did not, or the reverse."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **given}
    status = StatusCode.ERROR if failed else StatusCode.UNSET
    work = agent_work([span(1, "chat m", attributes=attributes, status=status)])

    assert bool(why_unreported(work)) is not is_known


def test_a_failed_attempt_before_a_good_one_hides_nothing() -> None:
    """A failed request counts as silent, so that no absence can be known in a whole trace."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    spans = [
        span(1, "chat m", at=(0, 1), attributes=attributes, status=StatusCode.ERROR),
        span(2, "chat n", at=(2, 3), attributes={**attributes, OUTPUT: TEXT}),
    ]
    assert not why_unreported(agent_work(spans))
