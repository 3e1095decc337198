"""Results of other evaluators, as they stand in events of spans."""

import pytest

from scouter.evaluate.show.trace_view import view_trace
from scouter.model.log_event import ForeignResult, foreign_results
from scouter.model.span import AttributeValue, SpanEvent
from scouter.replay.reports.plain import values
from tests.contracts.store_data import TRACE, span

NAME = "gen_ai.evaluation.name"
SCORE = "gen_ai.evaluation.score.value"


def result(time_ns: int = 15, /, **attributes: AttributeValue) -> SpanEvent:
    """An event of another evaluator; dots are written as two underscores."""
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    return SpanEvent(name="gen_ai.evaluation.result", time_ns=time_ns, attributes=given)


def test_everything_that_the_conventions_name_is_read() -> None:
    """Source: semantic conventions for generative AI, event `gen_ai.evaluation.result`."""
    event = SpanEvent(
        name="gen_ai.evaluation.result",
        time_ns=15,
        attributes={
            NAME: "relevance",
            SCORE: 0.25,
            "gen_ai.evaluation.score.label": "irrelevant",
            "gen_ai.evaluation.explanation": "It speaks of another city.",
            "gen_ai.response.id": "chatcmpl-123",
        },
    )
    failed = result(11, gen_ai__evaluation__name="tone", error__type="timeout")
    [early, late] = foreign_results(
        [span(1, events=(event, SpanEvent(name="other", time_ns=1))), span(2, events=(failed,))]
    )

    assert late == ForeignResult(
        trace_id=TRACE, span_id=f"{1:016x}", time_ns=15, name="relevance", score=0.25,
        label="irrelevant", explanation="It speaks of another city.", response_id="chatcmpl-123",
        error="",
    )  # fmt: skip
    assert (early.span_id, early.name, early.score, early.error) == (
        f"{2:016x}", "tone", None, "timeout",
    )  # fmt: skip


def test_ours_that_come_back_are_no_foreign_ones() -> None:
    """A backend may send on what it was sent; our own results are stored already."""
    ours = result(gen_ai__evaluation__name="polite", scouter__evaluation__id="e1")

    assert foreign_results([span(1, events=(ours,))]) == []


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (1, 1.0), ("0.5", 0.5), (float("nan"), None), ("inf", None), (True, 1.0), ("good", None),
        (("a",), None), (None, None), (10**400, None), ("True", 1.0), (" false ", 0.0),
        ("4/5", None),
    ],
)  # fmt: skip
def test_a_score_is_a_finite_number(sent: AttributeValue, read: float | None) -> None:
    """One that is none is an error of its evaluator, unless a label says what it found."""
    label = "gen_ai.evaluation.score.label"
    [found] = foreign_results([span(1, events=(result(15, **{SCORE: sent}),))])
    [labelled] = foreign_results([span(1, events=(result(15, **{SCORE: sent, label: "bad"}),))])

    assert found.score == read
    assert ("is no number" in found.error) is (read is None and sent is not None)
    assert (labelled.label, labelled.error) == ("bad", "")


@pytest.mark.parametrize(
    ("sent", "read"), [(True, "true"), (False, "false"), (3, "3"), ("Kind", "Kind"), (("a",), "")]
)
def test_a_label_is_a_word(sent: AttributeValue, read: str) -> None:
    """Some senders write a flag, or the number of a class."""
    [found] = foreign_results(
        [span(1, events=(result(15, **{"gen_ai.evaluation.score.label": sent}),))]
    )

    assert found.label == read


def test_people_see_it_beside_its_span() -> None:
    """And once: it is not among the span's other events."""
    event = result(gen_ai__evaluation__name="tone", gen_ai__evaluation__score__label="rude")
    [shown] = view_trace([span(1, events=(event, SpanEvent(name="other", time_ns=12)))]).spans

    assert [each.name for each in shown.events] == ["other"]
    assert dict(values(shown))["result of another evaluator, tone"] == {"label": "rude"}
