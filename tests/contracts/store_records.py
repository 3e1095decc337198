"""Answers of every store about records, their states and their sessions.

Expected values are counted by hand, or by going through everything that was put in.
"""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.store.letters import DeadLetter, LetterKind, LetterQuery
from collector.store.record_queries import RecordQuery, SessionQuery
from collector.store.rows import RecordState, Scope
from scouter.evaluate.outcome import DECIDED, Outcome
from tests.contracts.store_data import SPACE, TRACE, evaluation, letter, record
from tests.contracts.store_facets import WORDS, lengths
from tests.contracts.store_opened import IN_CLASS, Open, OpenedStore, done
from tests.support.store_appends import AppendingStore


class StoreRecordsContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    def _records(self, store: AppendingStore) -> None:
        """One waits, one passed, one failed at first, one was skipped, one is dead-lettered."""
        rows = [
            record("waits", record_id="x", received_ns=10),
            record("passed", trace_id=TRACE, received_ns=20, context="long" * 10),
            record("revised", session_id="s", received_ns=30),
            record("skipped", alias="b", profile_uid="p2", profile_name="named", received_ns=40),
            record("dead", profile_uid="", alias="", profile_name="", profile_ref="nobody"),
        ]
        store.append_records(rows[:2]).result()
        store.append_records([*rows[2:], record("passed", space="elsewhere")]).result()
        store.append_evaluations(
            [
                evaluation("passed"),
                evaluation("revised", Outcome.SKIPPED),
                evaluation("skipped", Outcome.SKIPPED),
                evaluation("session", session_id="s", scope=Scope.SESSION),
            ]
        ).result()
        again = evaluation("revised", Outcome.FAILED, revision=2, evaluation_id="again")
        store.append_evaluations([again]).result()
        gone = letter(uid="dead", reason="unknown_profile", was_accepted=True)
        refused = letter(uid="waits", reason="conflict")  # was never accepted: no state
        store.append_dead_letters([gone, refused]).result()

    def test_states_of_records(self, store: AppendingStore) -> None:
        self._records(store)
        found = store.records(RecordQuery(space=SPACE)).items
        assert {each.record.uid: (each.state, each.outcome) for each in found} == {
            "waits": (RecordState.WAITING, None),
            "passed": (RecordState.EVALUATED, Outcome.PASSED),
            "revised": (RecordState.EVALUATED, Outcome.FAILED),
            "skipped": (RecordState.SKIPPED, Outcome.SKIPPED),
            "dead": (RecordState.DEAD_LETTERED, None),
        }
        sheet = store.conservation(SPACE).records
        assert store.record_sheet(SPACE) == sheet
        for state in RecordState:
            page = store.records(RecordQuery(space=SPACE, state=state))
            assert [each.state for each in page.items] == [state] * getattr(sheet, state.value)
        sizes = {each.record.uid: each.context_bytes for each in found}
        assert (sizes["passed"], sizes["waits"]) == (42, len('{"answer":[1,null,"é"]}'.encode()))
        assert all(each.record.context is None for each in found)

    def test_filters_of_records(self, store: AppendingStore) -> None:
        self._records(store)

        def uids(**filters: Any) -> set[str]:
            return {
                each.record.uid for each in store.records(RecordQuery(space=SPACE, **filters)).items
            }

        assert uids(record_id="x") == uids(record_id="waits") == {"waits"}  # or its uid
        assert uids(trace_id=TRACE) == {"passed"}
        assert uids(session_id="s") == {"revised"}
        assert uids(session_id="passed") == {"passed"}  # a session of its own
        for name in ("b", "p2", "named"):
            assert uids(profile=name) == {"skipped"}
        assert uids(profile="nobody") == {"dead"}
        assert uids(since_ns=20, until_ns=40) == {"passed", "revised"}
        assert uids(profile="answers", state=RecordState.EVALUATED) == {"passed", "revised"}
        assert uids(profile="b", state=RecordState.EVALUATED) == set()

    @pytest.mark.parametrize("state", [None, RecordState.WAITING])
    def test_pages_of_records_hold_each_once(
        self, store: AppendingStore, state: RecordState | None
    ) -> None:
        """Newest commit first, though more comes in; of nine every third is decided."""
        for start in (0, 4, 8):
            rows = [record(f"u{n}") for n in range(start, min(start + 4, 9))]
            store.append_records(rows).result()
        store.append_evaluations([evaluation(f"u{n}") for n in (0, 3, 6)]).result()
        seen: list[str] = []
        query = RecordQuery(space=SPACE, limit=2, state=state)
        while True:
            page = store.records(query)
            seen += [each.record.uid for each in page.items]
            if page.next_before is None:
                break
            store.append_records([record(f"later {len(seen)}")]).result()
            query = replace(query, before=page.next_before)
        wanted = {f"u{n}" for n in range(9) if state is None or n % 3}
        assert (set(seen), len(seen)) == (wanted, len(wanted))
        assert seen[0] == "u8"
        assert {int(uid[1:]) // 4 for uid in seen[-2:]} == {0}

    def test_contexts_begin_as_they_are_stored(self, store: AppendingStore) -> None:
        """By characters and not by bytes; what another space has under the uid is not read."""
        store.append_records([record("u1", context={"question": "é" * 9}), record("u2")]).result()
        store.append_records([record("u1", space="elsewhere", context="no")]).result()
        found = store.context_beginnings(SPACE, ["u1", "u2", "u1", "none"], 16)
        assert found == {"u1": '{"question":"ééé', "u2": '{"answer":[1,nul'}
        assert store.context_beginnings(SPACE, [], 16) == {}
        assert set(store.context_beginnings(SPACE, ["u1", "u2"], 16, since_ns=6)) == {"u1", "u2"}
        assert store.context_beginnings(SPACE, ["u1", "u2"], 16, since_ns=7) == {}

    def test_one_uid_in_two_spaces_is_listed_in_each(self, store: AppendingStore) -> None:
        """In one commit, too, where both have one place."""
        rows = [record("u1", space=space, record_id=f"of {space}") for space in ("a", "b")]
        store.append_records(rows).result()
        for space in ("a", "b"):
            for size in (None, 10):
                page = store.records(RecordQuery(space=space, context_bytes=size))
                found = [(each.record.space, each.record.record_id) for each in page.items]
                assert found == [(space, f"of {space}")]

    def test_states_as_of_a_commit(self, store: AppendingStore) -> None:
        """Later items are not there: an evaluation, a revision of one, a dead letter."""
        store.append_records([record(uid) for uid in ("judged", "revised", "dead")]).result()
        store.append_evaluations([evaluation("revised")]).result()
        before = store.last_seq()
        store.append_evaluations([
            evaluation("judged"),
            evaluation("revised", Outcome.FAILED, revision=2, evaluation_id="2"),
        ]).result()  # fmt: skip
        store.append_dead_letters([letter(uid="dead", was_accepted=True)]).result()

        def states(as_of: int | None) -> dict[str, tuple[str, Outcome | None]]:
            page = store.records(RecordQuery(space=SPACE, as_of=as_of))
            return {each.record.uid: (each.state.value, each.outcome) for each in page.items}

        assert states(before) == {
            "judged": ("waiting", None), "revised": ("evaluated", Outcome.PASSED),
            "dead": ("waiting", None),
        }  # fmt: skip
        assert states(None) == {
            "judged": ("evaluated", Outcome.PASSED), "revised": ("evaluated", Outcome.FAILED),
            "dead": ("dead_lettered", None),
        }  # fmt: skip

    @pytest.mark.parametrize(("size", "least"), [(1, 30), (10**9, 3)])
    def test_records_with_contexts_in_pages_of_bounded_bytes(
        self, store: AppendingStore, size: int, least: int
    ) -> None:
        """Of 120 records every tenth is of 20 kB; a page has 50 of them, or a few."""
        contexts: dict[str, Any] = {
            f"u{n}": ["x" * 20_000, n] if n % 10 == 0 else {"n": n, "half": "\ud83d"}
            for n in range(120)
        }
        for start in range(0, 120, 40):
            rows = [record(f"u{n}", context=contexts[f"u{n}"]) for n in range(start, start + 40)]
            store.append_records(rows).result()
        found: dict[str, Any] = {}
        pages = 0
        query = RecordQuery(space=SPACE, limit=50, context_bytes=size)
        while True:
            page = store.records(query)
            pages += 1
            for each in page.items:
                assert each.context is not None
                assert each.record.uid not in found
                found[each.record.uid] = json.loads(each.context)
            if page.next_before is None:
                break
            query = replace(query, before=page.next_before)
        for value in contexts.values():
            if isinstance(value, dict):
                value["half"] = "\ufffd"  # as in every answer
        assert found == contexts
        assert pages == least if least == 3 else pages >= least

    def test_the_history_of_a_record(self, store: AppendingStore) -> None:
        self._records(store)
        found = store.record_history(SPACE, "revised")
        assert found is not None
        assert (found.record.context, found.state) == (
            {"answer": [1, None, "é"]}, RecordState.EVALUATED
        )  # fmt: skip
        assert [(row.revision, row.outcome) for row in found.evaluations] == [
            (2, Outcome.FAILED), (1, Outcome.SKIPPED)
        ]  # fmt: skip
        dead = store.record_history(SPACE, "dead")
        assert dead is not None
        assert dead.letter is not None
        assert (dead.state, dead.letter.letter.reason) == (
            RecordState.DEAD_LETTERED, "unknown_profile"
        )  # fmt: skip
        waits = store.record_history(SPACE, "waits")
        assert waits is not None
        assert (waits.state, waits.evaluations, waits.letter) == (RecordState.WAITING, (), None)
        assert store.record_history(SPACE, "nobody") is None
        assert store.record_history("elsewhere", "revised") is None

    # --- sessions ---

    def test_pages_of_one_moment_hold_sessions_that_go_on_meanwhile(
        self, store: AppendingStore
    ) -> None:
        for name in "abcd":
            store.append_records([record(f"u {name}", session_id=name)]).result()
        query = SessionQuery(space=SPACE, limit=2)
        first = store.sessions(query)
        for name in "be":
            store.append_records([record(f"again {name}", session_id=name)]).result()
        second = store.sessions(replace(query, before=first.next_before, as_of=first.as_of))
        assert [each.session_id for each in first.items] == ["d", "c"]
        assert [(each.session_id, each.records) for each in second.items] == [("b", 2), ("a", 1)]
        assert [each.session_id for each in store.sessions(query).items] == ["e", "b"]

    @IN_CLASS
    @given(data=st.data())
    def test_sessions_are_those_of_a_brute_force_count(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """Records with and without session ids, in any order; pages of one to three.

        A session is listed where the newest of its records stands that is requested; all count.
        """
        space = f"space {store.last_seq()}"  # one store for all examples
        query = SessionQuery(
            space=space,
            limit=data.draw(st.integers(1, 3)),
            profile=data.draw(st.none() | st.sampled_from(["one", "p two", "nobody"])),
            since_ns=data.draw(st.none() | st.integers(0, 9)),
            until_ns=data.draw(st.none() | st.integers(0, 9)),
        )
        counts: dict[str, Counter[str]] = {}
        times: dict[str, list[int]] = {}
        listed: list[str] = []
        for number in range(data.draw(st.integers(1, 12))):
            uid = f"{space} {number}"
            session_id = data.draw(st.sampled_from(["", "a", "b", "c", "d"]))
            created_ns, received_ns = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
            alias = data.draw(st.sampled_from(["one", "two"]))
            store.append_records(
                [
                    record(
                        uid, space=space, session_id=session_id, created_ns=created_ns,
                        received_ns=received_ns, alias=alias, profile_uid=f"p {alias}",
                    )
                ]
            ).result()  # fmt: skip
            outcome = data.draw(st.none() | st.sampled_from(Outcome))
            if outcome is not None:
                store.append_evaluations(
                    [
                        evaluation(
                            uid, outcome, space=space, session_id=session_id, evaluation_id=uid
                        )
                    ]
                ).result()
            own = session_id or uid
            word = "undecided" if outcome in (None, Outcome.PENDING) else str(outcome)
            counts[own] = counts.get(own, Counter[str]()) + Counter([word])
            times.setdefault(own, []).append(created_ns)
            is_requested = (
                query.profile in (None, alias, f"p {alias}")
                and (query.since_ns is None or received_ns >= query.since_ns)
                and (query.until_ns is None or received_ns < query.until_ns)
            )
            if is_requested:
                listed = [own, *(each for each in listed if each != own)]
        found: list[Any] = []
        while True:
            page = store.sessions(query)
            assert len(page.items) <= query.limit
            found += page.items
            if page.next_before is None:
                break
            query = replace(query, before=page.next_before)
        assert [each.session_id for each in found] == listed
        for each in found:
            wanted = counts[each.session_id]
            got = {word.value: getattr(each, word.value) for word in DECIDED}
            assert +Counter({**got, "undecided": each.undecided}) == wanted
            assert each.records == wanted.total()
            own_times = times[each.session_id]
            assert (each.first_ns, each.last_ns) == (min(own_times), max(own_times))
            assert store.session(space, each.session_id) == each

    def test_traces_of_a_session(self, store: AppendingStore) -> None:
        """In the order in which they came; a trace of two records is one."""
        traces = ["c" * 32, "a" * 32, "c" * 32, "b" * 32, None]
        for number, trace_id in enumerate(traces):
            row = record(f"u{number}", session_id="s", trace_id=trace_id)
            store.append_records([row]).result()
        store.append_records([record("other", trace_id="d" * 32)]).result()
        assert store.session_traces(SPACE, "s", 9) == ["c" * 32, "a" * 32, "b" * 32]
        assert store.session_traces(SPACE, "s", 2) == ["c" * 32, "a" * 32]
        assert store.session_traces(SPACE, "other", 9) == ["d" * 32]
        found = store.session(SPACE, "s")
        assert found is not None
        assert (found.records, found.traces, found.undecided) == (5, 3, 5)
        assert store.session(SPACE, "nobody") is None

    # --- counts ---

    @IN_CLASS
    @given(data=st.data())
    def test_a_count_of_records_is_the_length_of_the_list(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """Random records; some wait, some have revisions, some a dead letter."""
        space = f"space {store.last_seq()}"
        words = st.sampled_from("ab")
        for number in range(data.draw(st.integers(1, 8))):
            uid = f"{space} {number}"
            alias = data.draw(WORDS)
            row = record(
                uid, space=space, alias=alias, profile_ref=alias or data.draw(words),
                profile_name="", profile_uid="", session_id=data.draw(WORDS), received_ns=number,
            )  # fmt: skip
            store.append_records([row]).result()
            if data.draw(st.booleans()):
                put_aside = letter(space=space, uid=uid, was_accepted=True, payload=uid.encode())
                store.append_dead_letters([put_aside]).result()
            for revision in range(1, data.draw(st.integers(0, 2)) + 1):
                outcome = data.draw(st.sampled_from(Outcome))
                scored = evaluation(
                    uid, outcome, space=space, revision=revision, evaluation_id=f"{uid} {revision}"
                )
                store.append_evaluations([scored]).result()
        name, since = data.draw(st.none() | words), data.draw(st.none() | st.integers(0, 8))
        state = data.draw(st.none() | st.sampled_from(RecordState))
        query = RecordQuery(space=space, profile=name, state=state, since_ns=since)

        def of_profile(value: str) -> int:
            if name not in (None, value):
                return 0
            return len(store.records(replace(query, profile=value)).items)

        def of_state(value: str) -> int:
            if state not in (None, value):
                return 0
            return len(store.records(replace(query, state=RecordState(value))).items)

        states = [each.value for each in RecordState]
        wanted = lengths(
            {"profile": of_profile, "state": of_state}, {"profile": ["a", "b"], "state": states}
        )
        found = store.record_facets(query, lambda _: False)
        assert (found.counts, found.looked_until_ns) == (wanted, None)

    @pytest.mark.parametrize("profiles", [3, 70])
    def test_sessions_of_many_profiles_are_counted(
        self, store: AppendingStore, profiles: int
    ) -> None:
        """Each profile has two records of one session, which the next one has, too, and one alone.

        Every second record has no alias, but the name that it was sent with.
        """
        rows = [
            record(
                f"u{profile} {n}", profile_ref=f"p{profile:02}", profile_name="", profile_uid="",
                alias=f"p{profile:02}" if n % 2 else "", session_id=session_id,
            )
            for profile in range(profiles)
            for n, session_id in enumerate(
                [f"s{profile}", f"s{profile}", f"s{(profile + 1) % profiles}", ""]
            )
        ]  # fmt: skip
        store.append_records(rows).result()
        found = store.session_facets(SessionQuery(space=SPACE), lambda _: False).counts
        assert found["profile"] == {f"p{profile:02}": 3 for profile in range(profiles)}

    # --- letters ---

    def test_records_of_sessions_and_of_traces(self, store: AppendingStore) -> None:
        """A record without a session id is found by its uid; one with an id is not."""
        rows = [
            record("u1", session_id="s", trace_id=TRACE),
            record("u2", session_id="s", profile_uid="p2"),
            record("u3", session_id=""),
            record("u4", session_id="t", trace_id=TRACE),
        ]
        store.append_records([*rows, record("u5", session_id="s", space="elsewhere")]).result()
        outlines = [replace(row, context=None) for row in rows]
        assert store.session_records(SPACE, ["s", "u3", "u4", "s"], 3) == outlines[:3]
        assert len(store.session_records(SPACE, ["s", "u3"], 2)) == 2
        assert store.session_records(SPACE, [""], 3) == []
        assert store.session_records(SPACE, [], 3) == []
        assert store.trace_records(SPACE, [TRACE, "e" * 32]) == [outlines[0], outlines[3]]
        assert store.trace_records("elsewhere", [TRACE]) == []
        assert store.trace_records(SPACE, []) == []

    def test_traces_that_lack_a_refused_span(self, store: AppendingStore) -> None:
        """Until the letter is taken out again, as its span was accepted."""
        refused = letter(kind=LetterKind.SPAN, uid="a" * 32, message="bad time")
        large = letter(kind=LetterKind.SPANS_MESSAGE, uid="b" * 32, message="too large")
        others = [
            letter(kind=LetterKind.SPAN, source="unknown trace"),
            letter(kind=LetterKind.RECORD, uid="c" * 32),
            letter(kind=LetterKind.SPAN, uid="d" * 32, space="elsewhere"),
        ]
        store.append_dead_letters([refused, large, *others]).result()
        ids = [each * 32 for each in "abcde"]

        assert store.refused_spans(SPACE, ids) == {ids[0]: "bad time", ids[1]: "too large"}
        assert store.refused_spans(SPACE, ids[1:2]) == {ids[1]: "too large"}
        assert store.refused_spans(SPACE, []) == {}

        (found,) = store.dead_letters(LetterQuery(space=SPACE, uid=ids[0]))
        done(store.remove_dead_letters(SPACE, [found.letter_id]))
        assert store.refused_spans(SPACE, ids) == {ids[1]: "too large"}

    def test_dead_letters_are_listed_newest_first_and_page_by_page(self, open_store: Open) -> None:
        """Three in one commit, one in the next; pages of two hold each once, though more come."""
        store = open_store()
        first = [letter(source=f"http {n}", payload=bytes([n])) for n in range(3)]
        last = letter(source="later", uid="u", was_accepted=True, message="ünknown")
        store.append_dead_letters(first).result()
        store.append_dead_letters([last, letter(space="elsewhere")]).result()
        store.close()
        store = open_store()
        pages = [store.dead_letters(LetterQuery(space=SPACE, limit=2))]
        store.append_dead_letters([letter(source="while they are read")]).result()
        while pages[-1]:
            end = pages[-1][-1]
            pages.append(
                store.dead_letters(
                    LetterQuery(space=SPACE, limit=2, before=(end.seq, end.letter_id))
                )
            )
        elsewhere = store.dead_letters(LetterQuery(space="elsewhere"))
        store.close()

        assert [len(page) for page in pages] == [2, 2, 0]
        found = [each for page in pages for each in page]
        assert found[0].letter == last
        assert sorted((each.letter for each in found[1:]), key=lambda each: each.source) == first
        assert found[0].seq > found[1].seq == found[2].seq == found[3].seq
        assert len({each.letter_id for each in found}) == 4
        assert [each.letter for each in elsewhere] == [letter(space="elsewhere")]

    def test_filters_of_dead_letters(self, store: AppendingStore) -> None:
        record_letter, span_letter = letter(), letter(kind=LetterKind.SPAN, reason="invalid_span")
        store.append_dead_letters([record_letter, span_letter]).result()

        def found(**filters: Any) -> list[DeadLetter]:
            query = LetterQuery(space=SPACE, **filters)
            return [each.letter for each in store.dead_letters(query)]

        assert found(reason="invalid_span") == found(kind=LetterKind.SPAN) == [span_letter]
        assert found(reason="invalid_record", kind=LetterKind.RECORD) == [record_letter]
        assert found(reason="invalid_record", kind=LetterKind.SPAN) == []
        for each in store.dead_letters(LetterQuery(space=SPACE)):
            assert found(letter_id=each.letter_id) == [each.letter]
        assert found(letter_id="none") == []
