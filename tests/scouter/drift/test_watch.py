"""Traces that a watch selects and samples."""

import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from scouter.cli.app import main
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch, is_sampled
from scouter.drift.wire import read_wire_profile
from scouter.drift.wire_limits import WIRE_LIMITS
from scouter.drift.wire_tasks import WireProfileError
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.spans.filters import compile_filter, compile_test
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.model.span import Resource, Scope, Span, SpanEvent, SpanKind, StatusCode

TASK = AssertionTask("answered", "answer", "", Op.NotEqual)


def span(number: int, **fields: object) -> Span:
    given: dict[str, object] = {"name": f"n{number}", "start_ns": 0, "end_ns": 0} | fields
    return Span(trace_id="a" * 32, span_id=f"{number:016x}", **given)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_the_share_is_what_was_requested(ratio: float) -> None:
    """Within five standard deviations of a binomial distribution."""
    chance, n = random.Random(3), 20_000
    is_in = sum(is_sampled(f"{chance.getrandbits(128):032x}", ratio) for _ in range(n))
    assert abs(is_in - n * ratio) <= 5 * math.sqrt(n * ratio * (1 - ratio))


@pytest.mark.parametrize(
    ("digits", "ratio", "is_in"),
    [
        pytest.param("80000000000000", 0.5, True, id="half-is-in"),
        pytest.param("7fffffffffffff", 0.5, False, id="below-half"),
        pytest.param("ffffffffffffff", 1e-9, True, id="the-last"),
        pytest.param("ffffffffffffff", 0.0, False, id="none"),
        pytest.param("00000000000000", 1.0, True, id="all"),
    ],
)
def test_only_the_last_56_bits_count(digits: str, ratio: float, *, is_in: bool) -> None:
    for front in ("0" * 18, "f" * 18):
        assert is_sampled(front + digits, ratio) is is_in


def test_a_smaller_share_is_part_of_a_larger_one() -> None:
    chance = random.Random(4)
    for _ in range(1000):
        trace_id = f"{chance.getrandbits(128):032x}"
        small, large = sorted((chance.random(), chance.random()))
        assert is_sampled(trace_id, large) >= is_sampled(trace_id, small)


def test_a_trace_that_judges_are_called_for_is_judged() -> None:
    watch, chance = Watch(sample=0.3, judge_sample=0.5), random.Random(6)
    ids = [f"{chance.getrandbits(128):032x}" for _ in range(5000)]
    judged = {each for each in ids if watch.judges(each)}
    called = {each for each in ids if watch.asks(each)}
    assert called < judged
    assert abs(len(called) - 750) < 5 * math.sqrt(5000 * 0.15 * 0.85)


WIRE = {
    "service": ({"service": "shop"}, {"ByService": {"name": "shop"}}),
    "filter": ({"filter": {"ByName": {"name": "a"}}}, {"ByName": {"name": "a"}}),
    "filter-alone": ({"ByName": {"name": "a"}}, {"ByName": {"name": "a"}}),
    "any-value": ({"attribute": {"k": None}}, {"WithAttribute": {"key": "k"}}),
    "both": (
        {"service": "shop", "attribute": {"k": 1}},
        {"And": {"filters": [
            {"ByService": {"name": "shop"}}, {"WithAttributeValue": {"key": "k", "value": 1}},
        ]}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WIRE)
def test_a_match_is_a_filter(name: str) -> None:
    match, expected = WIRE[name]
    found = Watch.model_validate({"match": match}).match.span_filter
    assert found is not None
    assert found.to_wire() == expected


def test_without_a_match_every_span_will_do() -> None:
    assert Watch().match.span_filter is None


@pytest.mark.parametrize("kind", ["ChildOf", "ParentOf", "DescendantOf", "AncestorOf"])
def test_a_filter_of_several_spans_is_refused(kind: str) -> None:
    inner = {"Not": {"filter": {kind: {"filter": {"ByName": {"name": "a"}}}}}}
    with pytest.raises(ValidationError, match=f"{kind} looks at several spans"):
        Watch.model_validate({"match": inner})


def test_the_watch_is_no_part_of_the_digest(tmp_path: Path) -> None:
    plain = AgentEvalProfile([TASK], alias="shop")
    watching = AgentEvalProfile([TASK], alias="shop", watch=Watch(sample=0.5))
    assert (plain.digest, plain.uid) == (watching.digest, watching.uid)
    assert AgentEvalProfile.from_file(watching.save_to_json(tmp_path / "a.json")) == watching
    assert "watch" not in plain.model_dump_json()
    assert read_wire_profile(watching.model_dump_json().encode()) == watching


def test_a_strangers_watch_is_weighed() -> None:
    many = SpanFilter.by_name("a")
    for number in range(WIRE_LIMITS.filters):
        many = many.or_(SpanFilter.by_name(str(number)))
    body = AgentEvalProfile([TASK], alias="shop", watch=Watch(match=WatchMatch(filter=many)))
    with pytest.raises(WireProfileError, match=r"watch\.match.*filters"):
        read_wire_profile(body.model_dump_json().encode())


def test_the_command_says_what_is_watched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(
        "alias: shop\nwatch: {match: {service: shop}, sample: 0.25}\n"
        "tasks:\n  - {task_type: Assertion, id: a, context_path: answer, operator: IsNotEmpty,"
        " expected_value: true}\n"
    )
    monkeypatch.setattr(sys, "argv", ["scouter", "profile", "check", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert "watches 25% of the traces that match" in capsys.readouterr().out


SPANS = (
    span(1, name="chat", attributes={"k": 1, "empty": None}, status=StatusCode.ERROR),
    span(2, name="chat 2", attributes={"k": 1.0}, kind=SpanKind.CLIENT, end_ns=5_000_000),
    span(3, resource=Resource(attributes={"service.name": "shop"}), status=StatusCode.OK),
    span(4, scope=Scope(name="lib", version="2"), attributes={"k": "1"}),
    span(5, events=(SpanEvent(name="e", time_ns=1, attributes={"a": True}),)),
)
FILTERS: tuple[Callable[[], SpanFilter], ...] = (
    lambda: SpanFilter.by_name("chat"),
    lambda: SpanFilter.by_name_pattern("^chat"),
    lambda: SpanFilter.with_attribute("k"),
    lambda: SpanFilter.with_attribute("empty"),
    lambda: SpanFilter.with_attribute_value("k", 1),
    lambda: SpanFilter.with_status(SpanStatus.Error),
    lambda: SpanFilter.by_kind("Client"),
    lambda: SpanFilter.with_duration(min_ms=1),
    lambda: SpanFilter.with_duration(max_ms=1),
    lambda: SpanFilter.by_service("shop"),
    lambda: SpanFilter.by_scope("lib", "2"),
    lambda: SpanFilter.with_event("e"),
    lambda: SpanFilter.with_event_attribute("e", "a"),
    lambda: SpanFilter.with_event_attribute_value("e", "a", True),
)


def test_one_span_is_tested_as_a_tree_is_filtered() -> None:
    """Every filter, and every pair joined: the test of one span and the filter of many agree."""
    singles = [make() for make in FILTERS]
    joined = [a.and_(b) for a in singles for b in singles]
    joined += [a.or_(b.not_()) for a in singles for b in singles]
    tree = SpanTree(SPANS)
    for each in (*singles, *joined):
        test = compile_test(each)
        assert [s.span_id for s in SPANS if test(s)] == sorted(
            s.span_id for s in compile_filter(each)(tree)
        )
