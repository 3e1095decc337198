"""Duties of every store for live detectors."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from collector.prices import NO_PRICES, PriceTable
from collector.store.alerts import DeliveryState, DriftDelivery, DriftEvent, DriftState
from collector.store.decided import ChangeQuery, DecidedQuery, VersionQuery
from collector.store.rows import Completeness, Scope, TaskRow
from scouter.drift.canary import Result
from scouter.drift.series.observed import BEFORE_ALL, RECORD
from scouter.drift.series.series import Agent
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.costs import Price
from scouter.model.score import score_uid
from scouter.model.span import AttributeValue
from tests.contracts.store_data import SPACE, TRACE, evaluation, span
from tests.support.store_appends import AppendingStore

Open = Callable[[], AppendingStore]
PASSED, FAILED, PENDING = Outcome.PASSED, Outcome.FAILED, Outcome.PENDING


def task(task_id: str, outcome: Outcome, reason: str | None = None) -> TaskRow:
    return TaskRow(task_id=task_id, task_type="LLMJudge", outcome=outcome, reason=reason)


def event(alert_id: str, at_ns: int, state: str, **fields: Any) -> DriftEvent:
    given: dict[str, Any] = {"space": SPACE, "body": f'{{"at": {at_ns}}}'}
    return DriftEvent(alert_id=alert_id, at_ns=at_ns, state=state, **(given | fields))


def delivery(
    alert_id: str, channel: str, changed_ns: int, state: DeliveryState, **fields: Any
) -> DriftDelivery:
    given: dict[str, Any] = {
        "space": SPACE, "alert_state": "firing", "at_ns": 7, "attempts": 1, "answer": "",
    }  # fmt: skip
    return DriftDelivery(
        alert_id=alert_id, channel=channel, changed_ns=changed_ns, state=state, **(given | fields)
    )


class StoreDriftContract:
    """Subclass it and give the fixture `open_store`."""

    @pytest.fixture
    def store(self, open_store: Open) -> Iterator[AppendingStore]:
        store = open_store()
        yield store
        store.close()

    def test_numbers_stand_beside_decided_outcomes(self, store: AppendingStore) -> None:
        """Scores of judges and metrics, 1 or 0 where they have none; measures of traces alone."""

        def row(task_id: str, task_type: str, outcome: Outcome, **fields: Any) -> TaskRow:
            return TaskRow(task_id=task_id, task_type=task_type, outcome=outcome, **fields)

        tasks = (
            row("judge", "LLMJudge", FAILED, actual=2),
            row("yes", "LLMJudge", PASSED, actual=True),
            row("calls", "Trajectory", PASSED, actual=["a"], stated_score=0.5),
            row("slow", "TraceAssertion", FAILED, actual=3_000, expected=2_000),
            row("names", "TraceAssertion", PASSED, actual=["a"]),
            row("equal", "Assertion", PASSED, actual=7),
            row("broken", "LLMJudge", Outcome.ERRORED, actual=3),
        )
        store.append_evaluations([evaluation("u1", FAILED, tasks), evaluation("u2")]).result()
        first, second = store.decided_after(BEFORE_ALL, 10)
        assert dict(first.numbers) == {"judge": 2, "yes": 1, "calls": 0.5, "slow": 3_000}
        assert second.numbers == ()

    def test_costs_and_durations_of_records(self, store: AppendingStore) -> None:
        """1,000 tokens in and 200 out of gpt-4o, and 3 s; once for a trace, and for whole ones."""
        chat = {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 200,
        }  # fmt: skip
        ours, bare = {**chat, "gen_ai.request.model": "ours"}, dict[str, AttributeValue]()
        spans = [
            span(1, trace_id=letter * 32, attributes=attributes, start_ns=0, end_ns=3 * 10**9)
            for letter, attributes in (("a", chat), ("b", ours), ("c", bare))
        ]
        store.append_spans(SPACE, spans, 1).result()
        rows = [
            evaluation(uid, trace_id=trace, reads_spans=reads, completeness=complete)
            for uid, trace, reads, complete in (
                ("listed", "a" * 32, True, Completeness.COMPLETE),
                ("again", "a" * 32, True, Completeness.COMPLETE),
                ("unpriced", "b" * 32, True, Completeness.QUIET),
                ("no call", "c" * 32, True, Completeness.COMPLETE),
                ("at once", "a" * 32, False, Completeness.COMPLETE),
                ("partial", "c" * 32, True, Completeness.DEADLINE),
                ("untraced", None, True, Completeness.COMPLETE),
            )
        ]
        store.append_evaluations(rows).result()
        took = ("latency", 3.0)

        def amounts(prices: PriceTable) -> list[tuple[tuple[str, float | None], ...]]:
            return [each.amounts for each in store.decided_after(BEFORE_ALL, 10, prices=prices)]

        none = [()] * 3
        assert amounts(NO_PRICES) == [
            (("cost", pytest.approx(0.0045)), took), (), (("cost", None), took), (took,), *none,
        ]  # fmt: skip
        own = PriceTable({"ours": Price(input=1, output=5), "gpt-4o": Price(input=0, output=0)})
        assert amounts(own)[:3] == [
            (("cost", 0.0), took), (), (("cost", pytest.approx(0.002)), took),
        ]  # fmt: skip

    def test_each_record_is_given_once_it_is_decided(self, store: AppendingStore) -> None:
        """Neither while it is pending nor again when it is judged anew."""
        two = (task("t", PASSED), task("j", PENDING))
        store.append_evaluations(
            [evaluation("u1", PENDING, two), evaluation("u2", FAILED)]
        ).result()
        done = (task("t", PASSED), task("j", FAILED))
        decided = evaluation(
            "u1", FAILED, done, revision=2, was_decided=False, evaluation_id="e1-2",
            service_name="bot", service_version="2", environment="prod", evaluated_ns=7,
        )  # fmt: skip
        store.append_evaluations([decided]).result()
        again = evaluation("u1", PASSED, two[:1], revision=3, evaluation_id="e1-3")
        store.append_evaluations([again]).result()

        first, second = store.decided_after(BEFORE_ALL, 10)
        assert (first.evaluation_id, first.outcomes) == (
            "evaluation of u2",
            ((RECORD, FAILED), ("t1", FAILED)),
        )
        assert (second.evaluation_id, second.at_ns, second.session) == ("e1-2", 7, "s1")
        assert second.agent == Agent("bot", "prod", "2")
        assert second.outcomes == ((RECORD, FAILED), ("t", PASSED), ("j", FAILED))
        assert (first.space, first.profile_uid) == (SPACE, "p1")

    def test_results_are_given_page_by_page_in_order(self, store: AppendingStore) -> None:
        for batch in range(3):
            rows = [evaluation(f"u{batch}-{n}") for n in range(4)]
            store.append_evaluations(rows).result()
        found, place = list[str](), BEFORE_ALL
        while page := store.decided_after(place, 5):
            found += [each.evaluation_id for each in page]
            place = page[-1].place
        assert found == [f"evaluation of u{b}-{n}" for b in range(3) for n in range(4)]

    def test_results_of_a_space_a_profile_and_a_time(self, store: AppendingStore) -> None:
        store.append_evaluations(
            [
                evaluation("early", evaluated_ns=5),
                evaluation("there", evaluated_ns=6),
                evaluation(
                    "other", evaluated_ns=6, profile_uid="p9", alias="x", profile_digest="y"
                ),
                evaluation("late", evaluated_ns=7),
                evaluation("away", evaluated_ns=6, space="elsewhere"),
            ]
        ).result()

        def found(**filters: Any) -> list[str]:
            query = DecidedQuery(space=SPACE, **filters)
            return [e.evaluation_id for e in store.decided_after(BEFORE_ALL, 10, query)]

        assert found() == [f"evaluation of {n}" for n in ("early", "there", "other", "late")]
        assert found(since_ns=6, until_ns=7, profile="p1") == ["evaluation of there"]
        assert found(profile="x") == found(profile="y") == ["evaluation of other"]

    def test_traits_of_a_record_are_its_tags_and_what_its_spans_name(
        self, store: AppendingStore
    ) -> None:
        """Spans are looked at only for slices of theirs; tags of the agent are no traits."""
        names = {"gen_ai.tool.name": "search", "http.route": "/x"}
        store.append_spans(SPACE, [span(1, attributes=names)], 1).result()
        store.append_spans("other", [span(1, attributes=names)], 1).result()
        tags = {"tier": "free", "service.name": "bot", "service.version": "2"}
        rows = [
            evaluation("u1", tags=tags, trace_id=TRACE),
            evaluation("u2", tags={}, trace_id=None),
            evaluation("s", FAILED, scope=Scope.SESSION, tags=tags, trace_id=TRACE),
            evaluation("u3", tags={}, trace_id=TRACE, space="other"),
        ]
        store.append_evaluations(rows).result()

        def traits(*slices: str) -> list[tuple[str, ...]]:
            found = store.decided_after(BEFORE_ALL, 10, slices=slices)
            return [each.traits for each in found]

        free = "tag tier=free"
        assert traits("tag") == [(free,), (), (), ()]
        assert traits("tool") == [(free, "tool search"), (), (), ("tool search",)]
        assert traits("attribute http.route")[0] == (
            free, "attribute http.route=/x", "tool search",
        )  # fmt: skip

    def test_a_part_of_a_record_is_not_the_record(self, store: AppendingStore) -> None:
        left_out = (task("t", PASSED), task("j", Outcome.SKIPPED, "budget"))
        store.append_evaluations([evaluation("u1", PASSED, left_out)]).result()
        (found,) = store.decided_after(BEFORE_ALL, 10)
        assert found.outcomes == (("t", PASSED), ("j", Outcome.SKIPPED))

    def test_a_session_that_is_judged_as_a_whole_stands_for_itself(
        self, store: AppendingStore
    ) -> None:
        store.append_evaluations([evaluation("s", FAILED, scope=Scope.SESSION)]).result()
        (found,) = store.decided_after(BEFORE_ALL, 10)
        assert (found.session, found.outcomes) == ("", (("t1", FAILED),))

    def test_the_results_of_two_versions(self, store: AppendingStore) -> None:
        """In the order of completion, from the candidate's first one on, each record once."""
        tasks = (task("t", PASSED), task("j", FAILED))
        gated, skipped = (
            (task("t", PASSED), task("j", Outcome.SKIPPED, reason)) for reason in ("gate", "budget")
        )
        rows = [
            evaluation("u1", PASSED, tasks, service_version="1", evaluated_ns=1),
            evaluation(
                "u2", FAILED, tasks, service_version="2", evaluated_ns=2, service_name="bot"
            ),
            evaluation(
                "u3", PASSED, tasks, service_version="1", evaluated_ns=3, scope=Scope.SESSION
            ),
            evaluation(
                "u4", PASSED, tasks, service_version="1", evaluated_ns=4, environment="prod"
            ),
            evaluation("u5", PASSED, tasks, service_version="3", evaluated_ns=5),
            evaluation("u6", Outcome.ERRORED, tasks, service_version="2", evaluated_ns=6),
            evaluation("u7", Outcome.SKIPPED, tasks, service_version="2", evaluated_ns=7),
            evaluation("u8", Outcome.PENDING, tasks, service_version="2", evaluated_ns=8),
            evaluation("u9", PASSED, gated, service_version="1", evaluated_ns=9),
            evaluation("u10", PASSED, skipped, service_version="1", evaluated_ns=10),
        ]
        for row in rows:
            store.append_evaluations([row]).result()
        later = evaluation("u2", PASSED, tasks, service_version="2", revision=2, was_decided=True)
        store.append_evaluations([later]).result()

        def name(each: Result) -> str:
            flags = {"passed": each.is_passed, "errored": each.is_error, "skipped": each.is_skipped}
            return " ".join(word for word, flag in flags.items() if flag) or "failed"

        def found(limit: int = 10, **wanted: Any) -> list[tuple[str, int, str]]:
            usual: dict[str, Any] = {
                "space": SPACE, "profile_uid": "p1", "stable": "1", "candidate": "2", "task": "",
                "since_ns": None,
            }  # fmt: skip
            query = VersionQuery(**(usual | wanted))
            return [
                (version, each.at_ns, name(each))
                for version, each in store.version_results(query, limit)
            ]

        assert found() == [
            ("2", 2, "failed"), ("1", 4, "passed"), ("2", 6, "errored"), ("2", 7, "skipped"),
            ("1", 9, "passed"),
        ]  # fmt: skip
        assert found(since_ns=0)[0] == ("1", 1, "passed")
        # The first ones of each version: one that gets most of the traffic crowds out no other.
        assert [each[:2] for each in found(since_ns=0, limit=2)] == [
            ("1", 1), ("2", 2), ("1", 4), ("2", 6),
        ]  # fmt: skip
        assert [each[1] for each in found(environment="prod", since_ns=0)] == [4]
        assert found(service="bot") == [("2", 2, "failed")]
        assert found(task="j", since_ns=3) == [
            ("1", 3, "failed"), ("1", 4, "failed"), ("2", 6, "failed"), ("2", 7, "failed"),
            ("1", 9, "skipped"),
        ]  # fmt: skip
        assert found(candidate="none") == []
        assert found(space="other") == found(profile_uid="other") == []

    def test_a_state_takes_the_place_of_the_one_before(self, open_store: Open) -> None:
        store = open_store()
        store.save_drift([DriftState(name=f"g{n}", body=f"{n}") for n in range(30)], [])
        store.save_drift([DriftState(name="g1", body="new"), DriftState(name="g2", body="")], [])
        for n in range(5):
            store.save_drift([DriftState(name="g3", body=f"{n}")], [])
        store.close()
        store = open_store()
        found = {each.name: each.body for each in store.drift_states()}
        store.close()
        assert len(found) == 29
        assert (found["g0"], found["g1"], found["g3"]) == ("0", "new", "4")

    def test_the_latest_event_of_each_alert_and_all_of_one(self, store: AppendingStore) -> None:
        store.save_drift([], [event("a", 1, "firing"), event("b", 2, "firing")])
        store.save_drift([], [event("a", 3, "resolved")])
        store.save_drift([], [event("a", 9, "firing", space="other")])
        latest = store.drift_alerts(SPACE)
        assert [(each.alert_id, each.state) for each in latest] == [
            ("a", "resolved"), ("b", "firing"),
        ]  # fmt: skip
        assert len(store.drift_alerts()) == 3
        assert store.drift_history(SPACE, "a") == [
            event("a", 1, "firing"), event("a", 3, "resolved"),
        ]  # fmt: skip
        assert store.drift_history("other", "b") == []

    def test_the_last_step_of_each_delivery(self, open_store: Open) -> None:
        started, sent = DeliveryState.BEGUN, DeliveryState.SENT
        steps = [
            delivery("a", "slack", 1, started), delivery("a", "log", 1, started),
            delivery("a", "slack", 1, sent, attempts=2, answer="ok"),
            delivery("a", "slack", 5, started, alert_state="resolved"),
            delivery("b", "slack", 2, sent), delivery("a", "slack", 9, sent, space="other"),
        ]  # fmt: skip
        store = open_store()
        store.append_deliveries(steps[:2])
        store.append_deliveries(steps[2:])
        store.close()
        store = open_store()
        last, of_one = store.last_deliveries("slack"), store.deliveries_of(SPACE, "a")
        store.close()
        assert sorted(last, key=lambda e: (e.space, e.alert_id)) == sorted(
            steps[3:], key=lambda e: (e.space, e.alert_id)
        )
        assert of_one == steps[1:4]

    def test_scores_of_one_trace_go_together_as_those_of_a_conversation(
        self, store: AppendingStore
    ) -> None:
        """Ten scored passages of one answer are no ten answers; records of a trace stay single."""
        its = (TaskRow(task_id="t1", task_type="Score", outcome=FAILED),)
        alone: dict[str, Any] = {"session_id": "", "service_version": "2"}
        rows = [
            evaluation(score_uid("1"), FAILED, its, trace_id=TRACE, **alone),
            evaluation(score_uid("2"), FAILED, its, trace_id=TRACE, **alone),
            evaluation(score_uid("3"), FAILED, its, trace_id=TRACE, service_version="2"),
            evaluation(score_uid("4"), FAILED, its, **alone),
            evaluation("u1", FAILED, trace_id=TRACE, **alone),
        ]
        store.append_evaluations(rows).result()
        assert store.catch_up()
        wanted = [TRACE, TRACE, "s1", "", ""]

        assert [each.session for each in store.decided_after(BEFORE_ALL, 9)] == wanted
        query = VersionQuery(
            space=SPACE, profile_uid="p1", stable="1", candidate="2", task="t1", since_ns=0
        )
        assert [each.session for _, each in store.version_results(query, 9)] == wanted
        change = ChangeQuery(space=SPACE, profile_uid="p1", task="t1", since_ns=0)
        _, since = store.results_around(change)
        lengths = [{each for each in row.traits if each.startswith("length")} for row in since]
        assert lengths == [{"length 2 to 4 records"}] * 2 + [{"length 1 record"}, set(), set()]

    def test_results_around_a_change_have_their_traits(self, store: AppendingStore) -> None:
        """Sides by time, order by completion; errors and other profiles are in none."""
        calls = [
            span(1, attributes={"gen_ai.tool.name": "search"}),
            span(2, attributes={"gen_ai.request.model": "m"}),
        ]
        store.append_spans(SPACE, calls, 1).result()
        alone: dict[str, Any] = {"tags": {}, "session_id": ""}
        rows = [
            evaluation("u1", PASSED, evaluated_ns=5, tags={"a.b": "x y"}, trace_id=TRACE),
            evaluation("u2", FAILED, evaluated_ns=10, tags={"service.name": "b"}, trace_id=TRACE),
            evaluation("u3", PASSED, evaluated_ns=11, **alone, record_id="u3"),
            evaluation("u4", PASSED, evaluated_ns=12, tags={"k": "v"}, profile_uid="other"),
            evaluation("u5", Outcome.ERRORED, evaluated_ns=13, **alone),
            evaluation("u6", FAILED, evaluated_ns=4, **alone, scope=Scope.SESSION),
        ]
        store.append_evaluations(rows).result()
        again = evaluation("u1", FAILED, evaluated_ns=14, revision=2, evaluation_id="e1-2")
        store.append_evaluations([again]).result()
        assert store.catch_up()
        spans = {"tool search", "model m"}
        for name in ("", "t1"):
            query = ChangeQuery(space=SPACE, profile_uid="p1", task=name, since_ns=10)
            before, since = store.results_around(query)
            first = (True, {"tag a.b=x y", *spans, "record record u1", "length 1 record"})
            whole = [(False, {"record record u6"})] if name else []  # a session is no record
            assert [(each.passed, each.traits) for each in before] == [first, *whole]
            assert [(each.passed, each.traits) for each in since] == [
                (False, {*spans, "record record u2", "length 1 record"}), (True, set()),
            ]  # fmt: skip

    def test_results_around_a_change_of_one_service_and_environment(
        self, store: AppendingStore
    ) -> None:
        """Each of three agents has one result on each side; one has no service."""
        places = [("bot", "prod"), ("bot", "test"), ("", "prod")]
        rows = [
            evaluation(
                f"{at}-{number}", FAILED if at else PASSED, evaluated_ns=5 + 10 * at,
                service_name=service, environment=environment, record_id=f"{at}-{number}",
                tags={"k": f"{service}/{environment}"}, session_id="",
            )
            for number, (service, environment) in enumerate(places) for at in (0, 1)
        ]  # fmt: skip
        store.append_evaluations(rows).result()
        for service, environment in (*places, ("other", "prod")):
            query = ChangeQuery(
                space=SPACE, profile_uid="p1", task="t1", since_ns=10, service=service,
                environment=environment,
            )  # fmt: skip
            names = [{f"tag k={service}/{environment}"}] if service != "other" else []
            assert [[each.traits for each in side] for side in store.results_around(query)] == [
                names, names,
            ]  # fmt: skip
        both = ChangeQuery(space=SPACE, profile_uid="p1", task="", since_ns=10, service="bot")
        assert [len(side) for side in store.results_around(both)] == [2, 2]
