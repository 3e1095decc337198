"""Profiles, alerts and judges in any store."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from collector.store.decided import VersionQuery
from collector.store.judges import CalibrationRow, GoldOutcome, GoldQuery
from collector.store.rows import (
    AlertEvent,
    AlertState,
    TaskRow,
)
from scouter.drift.series.observed import BEFORE_ALL
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import (
    SPACE,
    evaluation,
    profile,
)
from tests.contracts.store_opened import Open, OpenedStore
from tests.support.store_appends import AppendingStore


class ControlContract(OpenedStore):
    """Profiles, alerts and calibrations."""

    def test_last_outcomes(self, store: AppendingStore) -> None:
        outcomes = [Outcome.PASSED, Outcome.FAILED, Outcome.ERRORED]
        store.append_evaluations([evaluation(f"u{n}", o) for n, o in enumerate(outcomes)]).result()
        store.append_evaluations([evaluation("other", profile_uid="p2")]).result()

        assert store.last_outcomes(SPACE, "p1", 2) == outcomes[1:]
        assert store.last_outcomes(SPACE, "p1", 9) == outcomes

    def test_backfills_are_no_news(self, store: AppendingStore) -> None:
        """No alert's condition and no canary sees them; detectors get them with their mark."""
        rows = [evaluation("u1", Outcome.FAILED, is_backfill=True, service_version="2"),
                evaluation("u2", service_version="2")]  # fmt: skip
        store.append_evaluations(rows).result()
        assert store.last_outcomes(SPACE, "p1", 9) == [Outcome.PASSED]
        found = store.decided_after(BEFORE_ALL, 9)
        assert [(each.evaluation_id, each.is_backfill) for each in found] == [
            ("evaluation of u1", True), ("evaluation of u2", False),
        ]  # fmt: skip
        query = VersionQuery(space=SPACE, profile_uid="p1", stable="1", candidate="2", task="",
                             since_ns=None)  # fmt: skip
        assert [(version, each.is_passed) for version, each in store.version_results(query, 9)] == [
            ("2", True)
        ]
        assert store.latest_evaluations([(SPACE, "u1")])[SPACE, "u1"].is_backfill
        names = [name for name, n in store.totals().items() if n and name.name == "records"]
        assert [(name.label, store.totals()[name]) for name in names] == [("passed", 1)]

    @pytest.mark.parametrize("reason", ["budget", "sampled", "gate", "not_applicable"])
    @pytest.mark.parametrize("other", [Outcome.PASSED, Outcome.FAILED])
    def test_an_evaluation_without_a_judges_is_no_outcome(
        self, store: AppendingStore, reason: str, other: Outcome
    ) -> None:
        """A task that a gate skipped, or that does not apply, is decided, however."""
        is_whole = reason in ("gate", "not_applicable")
        tasks = (
            TaskRow(task_id="a", task_type="Assertion", outcome=other),
            TaskRow(task_id="j", task_type="LLMJudge", outcome=Outcome.SKIPPED, reason=reason),
        )
        row = evaluation("u1", other, tasks=tasks)
        assert row.is_partial is not is_whole
        store.append_evaluations([row, evaluation("u2")]).result()
        decided = [other] if is_whole else []
        assert store.last_outcomes(SPACE, "p1", 9) == [*decided, Outcome.PASSED]

    def test_profiles_keep_their_latest_body_and_one_is_active(self, open_store: Open) -> None:
        store = open_store()
        store.append_profile(profile("p1", is_active=True))
        store.append_profile(profile("p2"))
        before = {row.uid: row.is_active for row in store.profiles()}
        store.append_profile(profile("p2", is_active=True, body='{"new": 1}'))
        store.append_profile(profile("q", is_active=True, alias="other"))
        store.close()
        store = open_store()
        after = store.profiles()
        store.close()

        assert before == {"p1": True, "p2": False}
        assert {row.uid: row.is_active for row in after} == {"p1": False, "p2": True, "q": True}
        assert [row.body for row in after] == ["{}", '{"new": 1}', "{}"]

    def test_changes_of_profiles_are_stored_in_order(self, open_store: Open) -> None:
        store = open_store()
        rows = [profile("p1", is_active=True), profile("p2"), profile("p1"), profile("p1")]
        seqs = [store.append_profile(row) for row in rows]
        store.close()
        store = open_store()
        changes = store.profile_changes()
        store.close()

        found = [(each.seq, each.uid, each.alias, each.is_active) for each in changes]
        assert found == [
            (seq, row.uid, row.alias, row.is_active) for seq, row in zip(seqs, rows, strict=True)
        ]

    def test_an_alias_may_be_left_without_an_active_profile(self, open_store: Open) -> None:
        store = open_store()
        store.append_profile(profile("p1", is_active=True))
        store.append_profile(profile("p2", is_active=True))
        store.append_profile(profile("q", is_active=True, alias="other"))
        store.append_profile(profile("p1"))  # is not the active one: changes nothing
        first = {row.uid: row.is_active for row in store.profiles()}
        store.append_profile(profile("p2"))
        store.close()
        store = open_store()
        second = {row.uid: row.is_active for row in store.profiles()}
        store.append_profile(profile("p1", is_active=True))
        third = {row.uid: row.is_active for row in store.profiles()}
        store.close()

        assert first == {"p1": False, "p2": True, "q": True}
        assert second == {"p1": False, "p2": False, "q": True}
        assert third == {"p1": True, "p2": False, "q": True}

    def test_last_alert_events(self, store: AppendingStore) -> None:
        def event(state: AlertState, uid: str, at_ns: int) -> AlertEvent:
            return AlertEvent(
                space=SPACE, profile_uid=uid, state=state, at_ns=at_ns, passed=1, total=2
            )

        firing, resolved = event(AlertState.FIRING, "p1", 1), event(AlertState.RESOLVED, "p1", 2)
        other = event(AlertState.FIRING, "p2", 3)
        store.append_alert_events([firing, resolved])
        store.append_alert_events([other])
        assert store.last_alert_events() == [resolved, other]

    def test_calibrations_are_stored_once(self, open_store: Callable[[], AppendingStore]) -> None:
        rows = [CalibrationRow(digest=name, body="{}", added_ns=at) for at, name in enumerate("ba")]
        store = open_store()
        store.append_calibrations(rows)
        store.append_calibrations([rows[1]._replace(added_ns=7)])
        store.close()
        store = open_store()
        found = store.calibrations()
        store.close()

        assert found == rows

    def test_gold_outcomes_of_one_judge(self, store: AppendingStore) -> None:
        """By slot, each once."""
        query = GoldQuery(space=SPACE, alias="a", task_id="t", judge="j")

        def evaluation(slot: int, outcome: Outcome = Outcome.PASSED) -> GoldOutcome:
            return GoldOutcome(
                space=SPACE,
                alias="a",
                task_id="t",
                judge="j",
                slot=slot,
                item=f"i{slot}",
                is_good=bool(slot % 2),
                outcome=outcome,
                reason="parse" if outcome is Outcome.ERRORED else None,
                at_ns=10 * slot,
            )

        late = evaluation(9, Outcome.ERRORED)
        store.append_gold_outcomes([late, evaluation(2), evaluation(3, Outcome.FAILED)])
        store.append_gold_outcomes([evaluation(3)._replace(item="again")])
        other: list[dict[str, str]] = [
            {"judge": "k"}, {"alias": "b"}, {"space": "elsewhere"}, {"task_id": "u"},
        ]  # fmt: skip
        store.append_gold_outcomes([evaluation(4)._replace(**each) for each in other])

        assert store.gold_outcomes(query) == [evaluation(2), evaluation(3, Outcome.FAILED), late]
        assert store.gold_outcomes(replace(query, since_slot=4)) == [late]
