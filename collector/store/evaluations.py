"""Evaluations: lists for people, newest first, and what other programs follow.

A list goes from the newest commits to the oldest ones in steps that grow, and stops once the page
is full. It finds places first, and reads the texts of those that it shows.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

from collector.store.commit import tags_of
from collector.store.evaluation_queries import (
    SERVICE,
    EvaluationPage,
    EvaluationQuery,
    OutcomeRow,
    TaskOutcome,
    evaluation_condition,
    service_filters,
    task_conditions,
)
from collector.store.facets import TAG, Counts, Facets, IsOver, count_in_steps, counts_of
from collector.store.json_text import decode_evaluation
from collector.store.reads import Reads, Values, within
from collector.store.rows import EvaluationRow, ResultPlace
from collector.store.spans import commit_steps
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.task_result import score_of

_N: Final = "BIGINT"
_PART: Final = 64
"""Texts that are read together where their length is bounded."""
_GROWTH: Final = 4
_OUTLINE: Final = (
    "record_uid", "record_id", "session_id", "trace_id", "created_ns", "duration_ns",
)  # fmt: skip
_OUTLINES: Final = ", ".join(f"e.{name}" for name in _OUTLINE)
_ALIASES: Final = """
    SELECT DISTINCT alias FROM profiles
    WHERE space = $1::TEXT AND $2::TEXT IN (alias, name, uid, digest)
"""
_ONE: Final = "SELECT body FROM evaluations WHERE space = $1 AND evaluation_id = $2"
_SPANS_OF: Final = """
    SELECT min(seq), max(seq) FROM bodies WHERE space = $1 AND trace_id IN (
        SELECT trace_id FROM evaluations WHERE space = $1 AND seq BETWEEN $2 AND $3)
"""
_AFTER: Final = """
    SELECT e.seq, e.ordinal, e.body FROM evaluations e
    WHERE e.seq >= $1::BIGINT AND (e.seq > $1::BIGINT OR e.ordinal > $2::BIGINT)
      AND e.seq <= $3::BIGINT
    ORDER BY e.seq, e.ordinal LIMIT $4::BIGINT
"""


class _Place(NamedTuple):
    """An evaluation of a list."""

    seq: int
    ordinal: int
    uid_hash: int
    evaluation_id: str


class EvaluationReads(Reads):
    """Reads of evaluations."""

    def evaluation(self, space: str, evaluation_id: str) -> EvaluationRow | None:
        """An evaluation by its id, be it the latest of its record or not."""
        found = self.read(_ONE, [space, evaluation_id])
        return decode_evaluation(found[0][0]) if found else None

    def evaluations(self, query: EvaluationQuery) -> EvaluationPage:
        """List evaluations, newest first, each record's latest revision only.

        Without `as_of` the list is as of now.

        Cost: a few steps for what is common; for what is rare or nowhere a look at the columns that
        are requested of every evaluation.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        found = self._evaluation_places(replace(query, as_of=as_of), query.limit + 1)
        page = found[: query.limit]
        rows: dict[tuple[int, int], EvaluationRow] = {}
        done, size, part = 0, 0, len(page) if query.text_bytes is None else 4
        while done < len(page) and (query.text_bytes is None or size < query.text_bytes):
            texts = self._evaluation_texts(page[done : done + part])
            rows.update((place, decode_evaluation(text)) for place, text in texts.items())
            size += sum(map(len, texts.values()))
            done, part = done + part, min(_PART, part * _GROWTH)
        page = page[:done]
        return EvaluationPage(
            items=tuple(rows[each[:2]] for each in page if each[:2] in rows),
            next_before=page[-1][:2] if len(found) > len(page) else None,
            as_of=as_of,
        )

    def _evaluation_places(self, query: EvaluationQuery, limit: int) -> list[_Place]:
        """The first places of a list."""
        found: list[_Place] = []
        if len(dict(query.tags)) < len(set(query.tags)):
            return found  # one key with two values
        before, last_seq = query.before, query.as_of or 0
        for first, last in commit_steps(last_seq if before is None else min(last_seq, before[0])):
            values = Values()
            if query.attributes:
                query = replace(query, spans_in=self._commits_of_spans(query.space, first, last))
            where = evaluation_condition(query, first, last, values)
            if before is not None and last == before[0]:
                place = ", ".join(values.of(each, _N) for each in before)
                where += f" AND (e.seq, e.ordinal) < ({place})"
            rows = self.read(
                f"SELECT e.seq, e.ordinal, e.uid_hash, e.evaluation_id FROM evaluations e"
                f" WHERE {where} ORDER BY e.seq DESC, e.ordinal DESC"
                f" LIMIT {values.of(limit - len(found), _N)}",
                values,
            )
            found += [_Place(*row) for row in rows]
            if len(found) == limit:
                break
        return found

    def _commits_of_spans(self, space: str, first: int, last: int) -> tuple[int, int]:
        """The first and the last commit with spans of what some commits evaluated."""
        ((begin, end),) = self.read(_SPANS_OF, [space, first, last])
        return (0, -1) if begin is None else (begin, end)

    def _evaluation_texts(self, places: Sequence[_Place]) -> dict[tuple[int, int], str]:
        """The texts at some places; what went meanwhile is left out."""
        values = Values()
        where = within((each.seq for each in places), values)
        hashes = values.of([each.uid_hash for each in places], "BIGINT[]")
        rows = self.read(
            "SELECT e.seq, e.ordinal, e.evaluation_id, e.body FROM evaluations e"
            f" WHERE {where} AND e.uid_hash = ANY({hashes})",
            values,
        )
        wanted = {each.evaluation_id for each in places}
        return {(seq, at): body for seq, at, number, body in rows if number in wanted}

    def outcomes(self, query: EvaluationQuery) -> list[OutcomeRow]:
        """Outcomes of the evaluations that `evaluations` lists, those made last, the newest first.

        Cost: linear in the rows that are found; without a profile that has one alias, in those that
        were evaluated since. No text is read.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        values = Values()
        where = evaluation_condition(query, 0, as_of, values)
        if len(aliases := self.read(_ALIASES, [query.space, query.profile])) == 1:
            where += f" AND e.alias = {values.of(aliases[0][0])}"
        rows = self.read(
            f"SELECT e.seq, e.evaluation_id, e.outcome, e.tags, {_OUTLINES} FROM evaluations e"
            f" WHERE {where} ORDER BY e.evaluated_ns DESC, e.seq DESC, e.ordinal DESC"
            f" LIMIT {values.of(query.limit, _N)}",
            values,
        )
        tasks = self._outcomes_of([row[0] for row in rows], [row[1] for row in rows])
        return [
            OutcomeRow(
                outcome=Outcome(outcome),
                tags=tags_of(tags),
                tasks=tuple(tasks[evaluation_id]),
                **dict(zip(_OUTLINE, rest, strict=True)),
            )
            for _, evaluation_id, outcome, tags, *rest in rows
        ]

    def _outcomes_of(
        self, commits: Collection[int], evaluation_ids: Collection[str]
    ) -> defaultdict[str, list[TaskOutcome]]:
        """The results by evaluation, in the order of the profile."""
        values = Values()
        where = within(commits, values)
        ids = values.of(list(evaluation_ids), "TEXT[]")
        rows = self.read(
            "SELECT t.position, t.evaluation_id, t.task_id, t.task_type, t.outcome, t.reason,"
            f" t.score FROM task_results t WHERE {where} AND t.evaluation_id = ANY({ids})",
            values,
        )
        found: defaultdict[str, list[TaskOutcome]] = defaultdict(list)
        known: dict[tuple[Any, ...], TaskOutcome] = {}
        for _, evaluation_id, *fields in sorted(rows, key=itemgetter(0)):
            key = tuple(fields)
            if (outcome := known.get(key)) is None:
                outcome = known[key] = _task_outcome(*fields)
            found[evaluation_id].append(outcome)
        return found

    def results_after(
        self, place: ResultPlace, limit: int
    ) -> list[tuple[ResultPlace, EvaluationRow]]:
        """Evaluations of all spaces in the order in which they became durable, every revision.

        A place is never given again, and nothing comes to lie before one that was read: who keeps
        the last place and goes on behind it reads every evaluation once.

        Args:
            place: Only those behind it.
            limit: So many at most.
        """
        rows = self.read_for_work(_AFTER, [*place, self.last_seq(), limit])
        return [(ResultPlace(seq, ordinal), decode_evaluation(body)) for seq, ordinal, body in rows]


def _task_outcome(
    task_id: str, task_type: str, text: str, reason: str | None, stated: float | None
) -> TaskOutcome:
    outcome = Outcome(text)
    score = score_of(task_type, outcome, None, stated)
    return TaskOutcome(task_id, task_type, outcome, reason, score)


class EvaluationFacetReads(Reads):
    """Counts beside the list of evaluations."""

    def evaluation_facets(self, query: EvaluationQuery, is_over: IsOver) -> Facets:
        """Count what `evaluations` lists, by outcome, profile, task, service and tag.

        A value's count is the length of the list that it leaves where it joins the filter.

        Args:
            query: The filter; its limit and its place are not looked at.
            is_over: Ends the search; see `count_in_steps`.

        Cost: linear in the evaluations that are looked at; where some of them looked at no spans,
        linear in the spans of the store, too.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        return count_in_steps(
            self, "evaluations", "evaluated_ns", query.space, as_of, is_over,
            lambda first: self._facet_counts(query, first, as_of),
        )  # fmt: skip

    def _facet_counts(self, query: EvaluationQuery, first: int, last: int) -> Counts:
        if len(dict(query.tags)) < len(set(query.tags)):
            return {}  # one key with two values
        values = Values()
        where = evaluation_condition(query, first, last, values)
        commits = f"seq BETWEEN {values.of(first, _N)} AND {values.of(last, _N)}"
        tasks = " AND ".join(
            (f"t.{commits}", *task_conditions(query.task_id, query.task_outcome, values))
        )
        service = " AND ".join(
            f"{name} = {values.of(value)}" for name, value in service_filters(query).items()
        )
        services = " ".join(
            f"UNION ALL SELECT '{name}', {name}, {count} WHERE {service or 'true'} GROUP BY {name}"
            for name in SERVICE
            for count in ("count(*) FROM sure", "count(DISTINCT evaluation_id) FROM told")
        )
        names, of_span = ", ".join(SERVICE), ", ".join(f"s.{name}" for name in SERVICE)
        rows = self.read(
            f"""
            WITH own AS MATERIALIZED (
                SELECT e.evaluation_id, e.trace_id, e.outcome, e.alias, e.tags, e.reads_spans,
                    {", ".join(f"e.{name}" for name in SERVICE)} FROM evaluations e WHERE {where}
            ), sure AS (
                SELECT {names} FROM own WHERE reads_spans = 1
            ), other AS MATERIALIZED (
                SELECT evaluation_id, trace_id, {names} FROM own WHERE reads_spans = 0
            ), told AS (
                SELECT evaluation_id, {names} FROM other
                UNION ALL SELECT e.evaluation_id, {of_span} FROM other e JOIN (
                    SELECT DISTINCT trace_id, {names} FROM spans
                    WHERE space = {values.of(query.space)}
                      AND trace_id IN (SELECT trace_id FROM other)
                ) s ON s.trace_id = e.trace_id
            )
            SELECT 'outcome', outcome, count(*) FROM own GROUP BY outcome
            UNION ALL SELECT 'profile', alias, count(*) FROM own GROUP BY alias
            UNION ALL SELECT '{TAG}', tag, count(*)
            FROM (SELECT unnest(tags) AS tag FROM own) tagged GROUP BY tag
            UNION ALL SELECT 'task_id', t.task_id, count(*) FROM task_results t
            WHERE {tasks} AND t.evaluation_id IN (SELECT evaluation_id FROM own)
            GROUP BY t.task_id
            {services}
            """,
            values,
        )
        return counts_of(rows)
