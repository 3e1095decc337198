"""The metrics on 200 recorded runs, against figures that were counted without this package.

The figures: multisets of name and arguments, compared as JSON, by twenty lines of Python.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from scouter.evaluate.trajectory.comparison import TrajectoryMetric, compare_trajectories
from scouter.evaluate.trajectory.matching import trajectory_from_spans
from scouter.model.sdk_span import span_from_sdk
from tests.support.tau_bench import Run, find_runs, load_runs, replay


class _Kept(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


def _reference(run: Run) -> list[dict[str, object]]:
    return [
        {"tool_name": action["name"], "tool_input": action["kwargs"]}
        for action in run.expected_actions
    ]


def _from_messages(runs: Sequence[Run]) -> list[object]:
    return [
        [{"tool_name": call.name, "tool_input": call.arguments} for call in run.calls()]
        for run in runs
    ]


def _from_spans(runs: Sequence[Run]) -> list[object]:
    """Each call stands in a message of the model, in the next call's input and in a span."""
    kept = _Kept()
    provider = TracerProvider(span_limits=SpanLimits(max_attribute_length=None))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    traces: list[str] = []
    replay(
        runs, provider.get_tracer("airline"), lambda record: traces.append(record.trace_id or "")
    )
    by_trace: dict[str, list[ReadableSpan]] = {}
    for span in kept.spans:
        assert span.context is not None
        by_trace.setdefault(f"{span.context.trace_id:032x}", []).append(span)
    return [trajectory_from_spans(map(span_from_sdk, by_trace[trace])) for trace in traces]


@pytest.mark.parametrize("predicted_of", [_from_messages, _from_spans])
def test_the_counted_figures(predicted_of: Callable[[Sequence[Run]], list[object]]) -> None:
    runs = load_runs(find_runs())
    found = [
        compare_trajectories(predicted, _reference(run))
        for predicted, run in zip(predicted_of(runs), runs, strict=True)
    ]

    def scores(metric: TrajectoryMetric) -> list[float]:
        return [each.score(metric) or 0.0 for each in found]

    assert len(found) == 200
    assert sum(scores(TrajectoryMetric.EXACT_MATCH)) == 12
    assert sum(scores(TrajectoryMetric.IN_ORDER_MATCH)) == 76
    assert sum(scores(TrajectoryMetric.ANY_ORDER_MATCH)) == 76
    assert round(fmean(scores(TrajectoryMetric.RECALL)), 4) == 0.5700
    assert round(fmean(scores(TrajectoryMetric.PRECISION)), 4) == 0.3345
