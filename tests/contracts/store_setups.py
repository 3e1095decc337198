"""Answers of every store about what records ran with."""

from collections.abc import Iterable
from typing import Final

from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import EvaluationRow
from collector.store.setups import SetupChange, SetupSpan
from collector.store.totals import HOUR_NS
from scouter.model.span import Resource, Span
from tests.contracts.store_data import SPACE, evaluation, span
from tests.contracts.store_opened import OpenedStore
from tests.support.store_appends import AppendingStore

MINUTE_NS: Final = HOUR_NS // 60
AT_NS: Final = 1_000 * HOUR_NS
"""A fall began here."""
QUERY: Final = EvaluationQuery(space=SPACE, profile="p1")
FINGERPRINT: Final = "openai.response.system_fingerprint"


def append(
    store: AppendingStore,
    results: Iterable[tuple[int, str]],
    version: str = "",
    space: str = SPACE,
) -> None:
    """Store a result at each time, of a trace whose model's call has this fingerprint."""
    rows: list[EvaluationRow] = []
    spans: list[Span] = []
    for at_ns, fingerprint in results:
        trace_id = f"{at_ns:032x}"
        attributes = {"gen_ai.operation.name": "chat"}
        attributes |= {FINGERPRINT: fingerprint} if fingerprint else {}
        resource = {"service.name": "bot", "service.version": version} if version else {}
        spans.append(
            span(trace_id=trace_id, attributes=attributes, resource=Resource(attributes=resource))
        )
        rows.append(
            evaluation(
                f"u{at_ns}", trace_id=trace_id, evaluated_ns=at_ns, reads_spans=True,
                service_version=version, space=space,
            )
        )  # fmt: skip
    store.append_spans(space, spans, 1).result()
    store.append_evaluations(rows).result()


def changed(name: str, before: float, share: float, first_ns: int) -> SetupChange:
    return SetupChange(kind="fingerprint", name=name, before=before, share=share, first_ns=first_ns)


class SetupsContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    def test_each_value_has_its_first_time_and_its_share_since(self, store: AppendingStore) -> None:
        """Results whose spans tell nothing of a kind are left out of its shares."""
        append(store, ((at, "fp_1") for at in range(100, 119)), "1")
        append(store, [(119, "")], "1")
        append(store, ((at, "fp_2" if at % 4 else "fp_1") for at in range(120, 140)), "2")
        append(store, ((at, "fp_9") for at in range(200, 230)), space="elsewhere")

        def change(
            kind: str, name: str, first_ns: int, records: int, of: int, *, is_new: bool
        ) -> SetupSpan:
            return SetupSpan(
                kind=kind, name=name, first_ns=first_ns, records=records, share=records / of,
                is_new=is_new,
            )  # fmt: skip

        found, count = store.setups(QUERY)
        assert count == 40
        assert found == [
            change("fingerprint", "fp_1", 100, 24, 39, is_new=False),
            change("version", "bot 1", 100, 20, 40, is_new=False),
            change("version", "bot 2", 120, 20, 20, is_new=True),
            change("fingerprint", "fp_2", 121, 15, 19, is_new=True),
        ]
        only = EvaluationQuery(space=SPACE, profile="p1", service_version="2")
        assert store.setups(only) == (
            [
                change("fingerprint", "fp_1", 120, 5, 20, is_new=False),
                change("version", "bot 2", 120, 20, 20, is_new=False),
                change("fingerprint", "fp_2", 121, 15, 19, is_new=False),
            ],
            20,
        )

    def test_of_many_results_a_sample_is_read(self, store: AppendingStore) -> None:
        append(store, ((at, "fp_1" if at < 3_000 else "fp_2") for at in range(4_500)))
        found, count = store.setups(QUERY)
        assert count == 900
        assert [each.name for each in found] == ["fp_1", "fp_2"]
        assert 3_000 <= found[1].first_ns < 3_005
        assert found[1].share == 1.0

    def test_a_filter_by_setup(self, store: AppendingStore) -> None:
        append(store, [(100, "fp_1"), (101, "fp_2"), (102, "")])
        for text, wanted in (("fingerprint=fp_2", ["u101"]), ("fingerprint=fp_3", [])):
            query = EvaluationQuery(space=SPACE, setup=text)
            assert [each.record_uid for each in store.evaluations(query).items] == wanted

    def test_what_was_evaluated_again_is_in_the_time_of_that(self, store: AppendingStore) -> None:
        """A fall in the middle of both times has no result before it."""
        append(store, [(AT_NS - 1, "fp_1")])
        again = evaluation(
            f"u{AT_NS - 1}", trace_id=f"{AT_NS - 1:032x}", evaluated_ns=AT_NS + 1, revision=2,
            reads_spans=True, space=SPACE,
        )  # fmt: skip
        store.append_evaluations([again]).result()
        before = EvaluationQuery(space=SPACE, profile="p1", until_ns=AT_NS)
        assert store.setups(before) == ([], 0)
        assert store.setups(QUERY)[1] == 1
        assert store.setup_changes(QUERY, AT_NS) == []

    def test_what_changed_within_the_hour_before_a_fall(self, store: AppendingStore) -> None:
        """2 results a minute: the hour before that hour is what it is compared with."""
        half = MINUTE_NS // 2
        append(store, ((AT_NS - at * half, "fp_1") for at in range(41, 400)))
        append(store, ((AT_NS - at * half, "fp_2") for at in range(1, 41)))
        append(store, ((AT_NS + at * half, "fp_2" if at % 10 else "fp_1") for at in range(200)))
        wanted = changed("fp_2", 0.0, 0.9, AT_NS - 20 * MINUTE_NS)
        assert store.setup_changes(QUERY, AT_NS) == [wanted]
        assert store.setup_changes(QUERY, AT_NS + 5 * HOUR_NS) == []
        assert store.setup_changes(QUERY, AT_NS - 3 * HOUR_NS) == []

    def test_a_hundred_results_take_the_place_of_an_hour_with_fewer(
        self, store: AppendingStore
    ) -> None:
        """One result an hour: a change 60 results before is near, one 260 before is not."""
        times = [(AT_NS + at * HOUR_NS, at) for at in range(-400, 50)]
        append(store, ((at_ns, "fp_2" if at >= -60 else "fp_1") for at_ns, at in times))
        wanted = changed("fp_2", 0.0, 1.0, AT_NS - 60 * HOUR_NS)
        assert store.setup_changes(QUERY, AT_NS) == [wanted]
        assert store.setup_changes(QUERY, AT_NS + 200 * HOUR_NS) == []

    def test_half_of_the_time_takes_the_place_of_an_hour_at_first(
        self, store: AppendingStore
    ) -> None:
        """Of ten minutes: a change three minutes before is near, one seven minutes is not."""
        second = MINUTE_NS // 60
        for begin, wanted in ((180, [changed("fp_2", 0.0, 1.0, AT_NS - 180 * second)]), (420, [])):
            space = f"space {begin}"
            append(
                store,
                ((AT_NS + at * second, "fp_2" if at >= -begin else "fp_1")
                 for at in range(-600, 60)),
                space=space,
            )  # fmt: skip
            query = EvaluationQuery(space=space, profile="p1")
            assert store.setup_changes(query, AT_NS) == wanted

    def test_a_rise_that_chance_explains_is_no_change(self, store: AppendingStore) -> None:
        """12 of 150 before, at most 13 % by its interval; 4 of 20 since, at least 8 %."""
        append(store, ((AT_NS - at, "fp_2" if at % 12 == 0 else "fp_1") for at in range(1, 301)))
        append(store, ((AT_NS + at, "fp_2" if at % 5 == 0 else "fp_1") for at in range(20)))
        assert store.setup_changes(QUERY, AT_NS) == []

    def test_a_value_that_many_had_before_did_not_change(self, store: AppendingStore) -> None:
        """A provider whose fingerprint goes back and forth."""
        append(store, ((AT_NS - at, "fp_2" if at % 3 == 0 else "fp_1") for at in range(1, 301)))
        append(store, ((AT_NS + at, "fp_2") for at in range(100)))
        assert store.setup_changes(QUERY, AT_NS) == []

    def test_a_kind_that_nothing_reported_before_did_not_change(
        self, store: AppendingStore
    ) -> None:
        """An instrumentor that begins to tell it is no release of the provider."""
        append(store, ((AT_NS - at, "") for at in range(1, 301)))
        append(store, ((AT_NS + at, "fp_1") for at in range(100)))
        assert store.setup_changes(QUERY, AT_NS) == []
