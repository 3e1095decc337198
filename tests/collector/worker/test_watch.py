"""Traces that a profile watches are judged without any record."""

import itertools
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from collector.items.record_items import check_record
from collector.log.port import Kind
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import RecordRow
from collector.worker.reevaluate import Reevaluator
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.errors import DataError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.spans.derived import derive_record, derived_uid
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import ENTITY_PREFIX
from scouter.model.span import Resource, Span
from tests.collector.worker.process_support import Process, sent_body
from tests.contracts.store_data import SPACE, TRACE, record, span

ANSWERED = AssertionTask("answered", "answer", "four days", Op.Equals)
STEPS = TraceAssertionTask(
    "two_steps", TraceAssertion.span_count(SpanFilter.by_name("step")), 2, Op.Equals
)
SHOP = Resource(attributes={"service.name": "shop"})
PROFILE = AgentEvalProfile(
    [ANSWERED, STEPS], alias="shop", watch=Watch(match=WatchMatch(service="shop"))
)
UID = derived_uid(TRACE, "shop")


def trace(
    trace_id: str = TRACE, answer: str = "four days", conversation: str = ""
) -> tuple[Span, ...]:
    """A root, two steps and a call of a model, as any OpenTelemetry SDK writes them."""
    said = f'[{{"role": "assistant", "parts": [{{"type": "text", "content": "{answer}"}}]}}]'
    in_sample = '[{"role": "user", "parts": [{"type": "text", "content": "When?"}]}]'
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": in_sample,
        "gen_ai.output.messages": said,
    }
    root = {"gen_ai.conversation.id": conversation} if conversation else {}
    return (
        span(1, trace_id=trace_id, name="agent", parent_span_id=None, attributes=root,
             resource=SHOP),
        *(span(at, trace_id=trace_id, name="step", parent_span_id=f"{1:016x}", resource=SHOP)
          for at in (2, 3)),
        span(4, trace_id=trace_id, name="chat", parent_span_id=f"{1:016x}", attributes=chat,
             resource=SHOP),
    )  # fmt: skip


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    found = Process(tmp_path, PROFILE)
    yield found
    found.last.close()


def outcomes(process: Process, uid: str = UID) -> dict[str, str]:
    return {task.task_id: task.outcome.value for task in process.evaluations()[uid].tasks}


def test_a_watched_trace_is_judged_once_it_is_complete(process: Process) -> None:
    process.spans(*trace())
    process.after(5)
    assert process.evaluations() == {}
    assert process.store.conservation(SPACE).records.accepted == 0
    process.after(5)
    evaluation = process.evaluations()[UID]
    assert outcomes(process) == {"answered": "passed", "two_steps": "passed"}
    assert (evaluation.trace_id, evaluation.completeness, evaluation.service_name) == (
        TRACE, "complete", "shop",
    )  # fmt: skip
    (row,) = process.store.records_of(SPACE, [UID])
    assert row.context == {"question": "When?", "answer": "four days"}
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.derived, sheet.evaluated, sheet.duplicates) == (1, 1, 1, 0)


def test_other_traces_cost_nothing(process: Process) -> None:
    process.spans(span(1, name="agent", parent_span_id=None))
    process.after(400)
    assert process.evaluations() == {}
    assert process.store.conservation(SPACE).records.accepted == 0


def test_spans_that_come_later_give_another_answer(process: Process) -> None:
    """The whole record is derived anew: a task that reads its context changes, too."""
    *first, chat = trace(answer="soon")
    later = replace(trace()[-1], span_id=f"{5:016x}", start_ns=chat.end_ns, end_ns=chat.end_ns + 1)
    process.spans(*first, chat)
    process.after(20)
    assert outcomes(process) == {"answered": "failed", "two_steps": "passed"}
    process.spans(later)
    process.after(20)
    evaluation = process.evaluations()[UID]
    assert evaluation.revision == 2
    assert outcomes(process) == {"answered": "passed", "two_steps": "passed"}
    (row,) = process.store.records_of(SPACE, [UID])
    assert row.context == {"question": "When?", "answer": "four days"}
    sheet = process.store.conservation(SPACE)
    assert (sheet.records.accepted, sheet.records.evaluated, sheet.spans.late) == (1, 1, 0)


SETUPS: dict[str, dict[str, str]] = {
    "a health check": {"http.route": "/healthz"},
    "OpenLLMetry's creation of an agent": {"gen_ai.operation.name": "create_agent",
                                           "gen_ai.agent.name": "shop"},
    "MCP's list of tools": {"mcp.method.name": "tools/list"},
    "an embedding": {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e"},
    "a retrieval": {"openinference.span.kind": "RETRIEVER", "input.value": "norway"},
    "an evaluator": {"langfuse.observation.type": "evaluator"},
    "a setup that is a workflow": {"traceloop.span.kind": "workflow"},
}  # fmt: skip


@pytest.mark.parametrize("name", SETUPS)
def test_a_trace_without_an_agent_makes_no_record(process: Process, name: str) -> None:
    """A trace of a process's start or of a helper alone is judged, and errored each time."""
    root = span(1, name=name, parent_span_id=None, attributes=SETUPS[name], resource=SHOP)
    process.spans(root)
    process.after(20)
    assert process.evaluations() == {}
    assert process.store.conservation(SPACE).records.accepted == 0
    late = replace(trace()[-1], parent_span_id=None)
    process.spans(late)  # a late call of a model makes it a trace of an agent
    process.after(20)
    assert outcomes(process) == {"answered": "passed", "two_steps": "failed"}


def test_a_filter_of_its_own_takes_a_trace_without_an_agent(tmp_path: Path) -> None:
    """A profile may watch embeddings or plain spans, if its filter names them."""
    named = WatchMatch(service="shop", filter=SpanFilter.by_name("step"))
    process = Process(tmp_path, AgentEvalProfile([STEPS], alias="shop", watch=Watch(match=named)))
    process.spans(*trace()[:3])
    process.after(20)
    assert outcomes(process) == {"two_steps": "passed"}
    process.last.close()


@pytest.mark.parametrize("first", ["record", "spans"])
def test_a_senders_record_is_judged_in_place_of_a_derived_one(process: Process, first: str) -> None:
    sent = record("sent", profile_uid=process.profile_uid, trace_id=TRACE, alias="shop")
    if first == "record":
        process.records(sent)
        process.spans(*trace())
    else:
        process.spans(*trace())
        process.records(sent)
    process.after(20)
    assert set(process.evaluations()) == {"sent"}
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.derived, sheet.superseded) == (1, 0, 0)


def test_a_senders_record_that_comes_behind_the_evaluation_takes_its_place(
    process: Process,
) -> None:
    process.spans(*trace())
    process.after(20)
    assert set(process.evaluations()) == {UID}
    process.records(record("sent", profile_uid=process.profile_uid, trace_id=TRACE, alias="shop"))
    process.after(20)
    assert set(process.evaluations()) == {"sent"}
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.derived, sheet.superseded, sheet.erased) == (2, 1, 1, 1)
    assert sheet.evaluated == 1
    assert len(process.store.spans_of(SPACE, [TRACE])[TRACE]) == 4


def test_a_superseded_record_is_found_by_the_next_process(process: Process) -> None:
    """The process ends once the sender's record is accepted."""
    process.spans(*trace())
    process.after(20)
    sent = record("sent", profile_uid=process.profile_uid, trace_id=TRACE, alias="shop")
    process.append(Kind.RECORDS, sent_body(sent))
    again = process.restarted()
    again.after(20)
    assert set(again.evaluations()) == {"sent"}
    assert again.store.conservation(SPACE).records.superseded == 1


@pytest.mark.parametrize("waited_s", [0.0, 3.0])
def test_a_trace_that_waits_is_derived_by_the_next_process(
    process: Process, waited_s: float
) -> None:
    process.spans(*trace(f"{7:032x}"))
    process.after(20)  # from now on the store knows that somebody watches
    process.spans(*trace())
    process.after(waited_s)
    again = process.restarted()
    again.after(20)
    assert set(again.evaluations()) == {UID, derived_uid(f"{7:032x}", "shop")}
    last = again.restarted()
    last.after(40)
    sheet = last.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.derived, sheet.evaluated) == (2, 2, 2)


def test_spans_that_were_accepted_and_not_read_are_found(process: Process) -> None:
    """The process ends between the answer to the sender and the thread that watches."""
    process.after(2)
    process.accept(*trace())
    again = process.restarted()
    again.after(20)
    assert set(again.evaluations()) == {UID}


def test_many_traces_that_wait_are_all_judged(tmp_path: Path) -> None:
    process = Process(tmp_path, PROFILE)
    ids = [f"{number:032x}" for number in range(1, 31)]
    for trace_id in ids:
        process.spans(*trace(trace_id))
    assert process.worker.watched == 30
    process.after(60)
    found = process.evaluations()
    assert set(found) == {derived_uid(trace_id, "shop") for trace_id in ids}
    assert {row.outcome.value for row in found.values()} == {"passed"}
    contexts = process.store.records_of(SPACE, list(found))
    assert {str(row.context) for row in contexts} == {
        "{'question': 'When?', 'answer': 'four days'}"
    }
    process.close()


def test_traces_that_wait_are_judged_by_the_next_process(tmp_path: Path) -> None:
    """Some were judged before; each is judged once."""
    first = Process(tmp_path, PROFILE)
    first.spans(*trace(f"{77:032x}"))
    first.after(20)
    ids = [f"{number:032x}" for number in range(1, 31)]
    for trace_id in ids:
        first.spans(*trace(trace_id))
    first.after(2)
    process = first.restarted()
    process.after(60)
    found = process.evaluations()
    assert set(found) == {derived_uid(trace_id, "shop") for trace_id in [*ids, f"{77:032x}"]}
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.derived, sheet.evaluated) == (31, 31, 31)
    process.close()


def test_any_order_and_repetition_gives_the_same_records(tmp_path: Path) -> None:
    chance = random.Random(5)
    ids = [f"{number:032x}" for number in range(1, 6)]
    expected: dict[str, tuple[object, ...]] = {}
    for round_ in range(6):
        process = Process(tmp_path / str(round_), PROFILE)
        batches = list(itertools.chain.from_iterable(trace(each) for each in ids))
        batches += chance.sample(batches, 8)
        chance.shuffle(batches)
        while batches:
            size = chance.randint(1, 5)
            process.spans(*batches[:size])
            del batches[:size]
            process.after(chance.choice([0.0, 0.2]))
        process.after(60)
        process.spans(*trace(chance.choice(ids)))  # all of it once more
        process.after(60)
        rows = process.store.records_of(SPACE, [derived_uid(each, "shop") for each in ids])
        found: dict[str, tuple[object, ...]] = {
            row.uid: (row.context, row.session_id, row.created_ns, dict(row.tags)) for row in rows
        }
        assert len(found) == 5
        expected = expected or found
        assert found == expected
        assert process.store.conservation(SPACE).records.accepted == 5
        process.close()


def test_live_and_offline_say_the_same(process: Process) -> None:
    traces = [
        trace(f"{1:032x}"),
        trace(f"{2:032x}", answer="never"),
        trace(f"{3:032x}")[1:],
        trace(f"{4:032x}", conversation="anna"),
    ]
    for each in traces:
        process.spans(*each)
    process.after(400)
    records = [derive_record(each) for each in traces]
    every = tuple(itertools.chain.from_iterable(traces))
    results = EvalDataset(records, PROFILE.tasks, every).evaluate()
    for each, spans in zip(results.records, traces, strict=True):
        uid = derived_uid(spans[0].trace_id, "shop")
        live = process.evaluations()[uid]
        assert [(t.task_id, t.outcome, t.actual) for t in each.tasks] == [
            (t.task_id, t.outcome, t.actual) for t in live.tasks
        ]
    assert process.evaluations()[derived_uid(f"{4:032x}", "shop")].session_id == "anna"
    assert results.records[3].session_id == "anna"


def test_erasing_a_trace_erases_what_was_derived_of_it(process: Process) -> None:
    process.spans(*trace())
    process.after(20)
    process.erase(EraseTarget(space=SPACE, trace_id=TRACE))
    process.after(1)
    assert process.evaluations() == {}
    process.spans(*trace())  # sent again, it is a duplicate
    process.after(60)
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.erased, sheet.evaluated) == (1, 1, 0)


def test_erasing_a_trace_that_waits_leaves_nothing_to_derive(process: Process) -> None:
    process.spans(*trace())
    process.erase(EraseTarget(space=SPACE, trace_id=TRACE))
    process.after(60)
    assert process.evaluations() == {}
    assert process.store.conservation(SPACE).records.accepted == 0
    assert process.worker.watched == 0


def ids_of(count: int) -> Sequence[str]:
    chance = random.Random(11)
    return [f"{chance.getrandbits(128):032x}" for _ in range(count)]


def test_only_the_sampled_traces_are_judged(tmp_path: Path) -> None:
    watch = Watch(match=WatchMatch(service="shop"), sample=0.3)
    process = Process(tmp_path, AgentEvalProfile([STEPS], alias="shop", watch=watch))
    ids = ids_of(60)
    for trace_id in ids:
        process.spans(*trace(trace_id))
    process.after(60)
    # By hand: the last 56 bits, as a fraction of 2^56, are at least 0.7.
    in_sample = {each for each in ids if int(each[18:], 16) / 2**56 >= 0.7}
    assert 5 < len(in_sample) < 35
    assert set(process.evaluations()) == {derived_uid(each, "shop") for each in in_sample}
    process.close()


# --- marks ------------------------------------------------------------------------------------


def marked(profile: AgentEvalProfile, spans: Sequence[Span]) -> tuple[Span, ...]:
    """The same spans, the last one marked as `active_profile` does it."""
    *rest, last = spans
    mark = {ENTITY_PREFIX + profile.uid: profile.uid}
    return *rest, replace(last, attributes={**last.attributes, **mark})


def test_a_mark_selects_a_profile_that_reads_nothing_but_spans(tmp_path: Path) -> None:
    profile = AgentEvalProfile([STEPS], alias="marks")
    process = Process(tmp_path, profile)
    process.spans(*marked(profile, trace()))
    process.spans(*trace(f"{8:032x}"))
    process.after(60)
    assert set(process.evaluations()) == {derived_uid(TRACE, "marks")}
    process.close()


def test_a_mark_does_not_select_a_profile_that_looks_for_a_context(tmp_path: Path) -> None:
    """Its records come from the agent; each marked trace without one would be errored."""
    profile = AgentEvalProfile([ANSWERED], alias="sent")
    process = Process(tmp_path, profile)
    process.spans(*marked(profile, trace()))
    process.after(60)
    assert process.evaluations() == {}
    process.close()


def test_a_mark_selects_a_profile_that_watches_other_services(tmp_path: Path) -> None:
    watch = Watch(match=WatchMatch(service="elsewhere"))
    profile = AgentEvalProfile([ANSWERED], alias="shop", watch=watch)
    process = Process(tmp_path, profile)
    process.spans(*marked(profile, trace()))
    process.after(60)
    assert outcomes(process) == {"answered": "passed"}
    process.close()


# --- profiles and spaces ----------------------------------------------------------------------


def test_each_alias_judges_a_trace_once(process: Process) -> None:
    other = AgentEvalProfile([STEPS], alias="steps", watch=Watch())
    process.register(other)
    process.spans(*trace())
    process.after(60)
    assert set(process.evaluations()) == {UID, derived_uid(TRACE, "steps")}
    again = AgentEvalProfile([ANSWERED], alias="shop", watch=Watch())
    process.register(again)  # another version of the alias: what is judged is not judged anew
    process.spans(span(9, name="step", parent_span_id=f"{1:016x}", resource=SHOP))
    process.after(60)
    assert process.evaluations()[UID].profile_uid == process.profile_uid
    assert process.store.conservation(SPACE).records.accepted == 2


def test_a_profile_watches_its_own_space(process: Process) -> None:
    process.spans(*trace(), space="other")
    process.after(60)
    assert process.evaluations("other") == {}
    process.register(PROFILE, "other")
    process.spans(*trace(f"{3:032x}"), space="other")
    process.after(60)
    assert set(process.evaluations("other")) == {derived_uid(f"{3:032x}", "shop")}
    assert process.evaluations() == {}


def test_a_start_does_not_judge_what_came_before_the_profile(tmp_path: Path) -> None:
    first = Process(tmp_path, None)
    first.spans(*trace())
    first.after(60)
    first.close()
    second = Process(tmp_path, PROFILE)
    second.after(60)
    last = second.restarted()
    last.after(60)
    assert last.evaluations() == {}
    last.close()


def test_judges_are_called_for_a_share_of_the_traces(tmp_path: Path) -> None:
    prompt = Prompt("Rate ${answer}.", "m", "openai", output_type=Score)
    good = LLMJudgeTask("good", prompt, 3, "score", "GreaterThanOrEqual")
    own = good.model_copy(update={"id": "own", "sample_rate": 0.999999})
    watch = Watch(match=WatchMatch(service="shop"), judge_sample=0.25)
    profile = AgentEvalProfile([STEPS, good, own], alias="shop", watch=watch)
    process = Process(tmp_path, profile)
    ids = ids_of(40)
    for trace_id in ids:
        process.spans(*trace(trace_id))
    process.after(60)
    in_sample = {each for each in ids if int(each[18:], 16) / 2**56 >= 0.75}
    assert 3 < len(in_sample) < 20
    for trace_id in ids:
        steps, first, second = process.evaluations()[derived_uid(trace_id, "shop")].tasks
        assert steps.outcome == "passed"
        expected = ("pending", None) if trace_id in in_sample else ("skipped", "sampled")
        assert (first.outcome.value, first.reason) == expected
        assert second.outcome == "pending"  # its own share says otherwise
    process.close()


def test_another_version_judges_derived_records_again(process: Process) -> None:
    """With their contexts and spans; judges are called for the same share."""
    process.spans(*trace())
    process.after(20)
    prompt = Prompt("Rate ${answer}.", "m", "openai", output_type=Score)
    good = LLMJudgeTask("good", prompt, 3, "score", "GreaterThanOrEqual")
    never = AssertionTask("never", "answer", "never", Op.Equals)
    watch = Watch(match=WatchMatch(service="shop"), judge_sample=0.0)
    second = AgentEvalProfile([never, STEPS, good], alias="shop", watch=watch)
    registered = process.registry.register(SPACE, second, activate=False)
    reevaluator = Reevaluator(process.store, process.registry, process.worker.revise)
    query = EvaluationQuery(space=SPACE, limit=10)
    with ThreadPoolExecutor(1) as pool:
        process.answer(
            pool.submit(reevaluator.run, registered, query, now_ns=process.now_ns(), is_dry=False)
        )
    evaluation = process.evaluations()[UID]
    assert (evaluation.revision, evaluation.service_name) == (2, "shop")
    assert outcomes(process) == {"never": "failed", "two_steps": "passed", "good": "skipped"}


def test_senders_cannot_use_the_uid_of_a_derived_record() -> None:
    with pytest.raises(DataError, match="reserved for records that are derived"):
        check_record({"uid": UID, "profile": "shop"})
    assert check_record({"uid": "derived:1", "profile": "shop"}).uid == "derived:1"


# --- sessions ---------------------------------------------------------------------------------

TALK = AgentEvalProfile(
    [
        AssertionTask("both", "records[*].context.answer", ["a", "b"], Op.Equals, scope="session"),
        ANSWERED,
    ],
    alias="shop",
    watch=Watch(match=WatchMatch(service="shop")),
)


def test_derived_records_of_one_conversation_are_a_session(tmp_path: Path) -> None:
    process = Process(tmp_path, TALK)
    for number, answer in ((1, "a"), (2, "b")):
        first, *rest = trace(f"{number:032x}", answer, "anna")
        process.spans(replace(first, start_ns=number), *rest)
    process.after(200)
    found = process.evaluations()["session anna"]
    assert [(task.task_id, task.outcome) for task in found.tasks] == [("both", "passed")]
    assert {key for key in process.evaluations() if key.startswith("session")} == {"session anna"}
    process.close()


def sent(process: Process, uid: str, **fields: object) -> RecordRow:
    given = {"profile_uid": process.profile_uid, "alias": "shop", "trace_id": TRACE} | fields
    return record(uid, context={"answer": "a"}, **given)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_record_without_a_session_takes_that_of_its_trace(
    tmp_path: Path, *, restarts: bool
) -> None:
    """Whichever comes first; its session is settled before the tasks on sessions run."""
    process = Process(tmp_path, TALK)
    process.records(sent(process, "u1"), sent(process, "u2", session_id="ben"))
    process.records(sent(process, "u3", trace_id=None))
    process.after(3)
    if restarts:
        process = process.restarted()
    process.spans(*trace(conversation="anna"))
    process.after(200)
    found = process.evaluations()
    assert [found[uid].session_id for uid in ("u1", "u2", "u3")] == ["anna", "ben", ""]
    sessions = {key for key in found if key.startswith("session")}
    assert sessions == {"session anna", "session ben", "session u3"}
    rows = process.store.session_records(SPACE, ["anna"], 10)
    assert [row.uid for row in rows] == ["u1"]
    process.close()


def test_a_first_session_id_that_comes_late_is_taken_where_spans_are_read(tmp_path: Path) -> None:
    profile = AgentEvalProfile([STEPS], alias="shop")
    process = Process(tmp_path, profile)
    first, *rest = trace(conversation="anna")
    process.records(sent(process, "u1"))
    process.spans(*rest)
    process.after(400)
    assert process.evaluations()["u1"].session_id == ""
    process.spans(first)
    process.after(60)
    evaluation = process.evaluations()["u1"]
    assert (evaluation.session_id, evaluation.revision) == ("anna", 2)
    assert [row.uid for row in process.store.session_records(SPACE, ["anna"], 10)] == ["u1"]
    process.close()


def test_a_record_that_was_judged_as_its_own_session_stays_one(tmp_path: Path) -> None:
    profile = AgentEvalProfile([STEPS, TALK.tasks[0]], alias="shop")
    process = Process(tmp_path, profile)
    first, *rest = trace(conversation="anna")
    process.records(sent(process, "u1"))
    process.spans(*rest)
    process.after(600)
    assert "session u1" in process.evaluations()
    process.spans(first)
    process.after(600)
    assert {key for key in process.evaluations() if key.startswith("session")} == {"session u1"}
    process.close()
