"""Routes of evaluations, rates of tasks, offline runs and comparisons."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from pydantic import JsonValue

from scouter.client.connection import Connection, Pages
from scouter.client.models.answer import FacetList
from scouter.client.models.comparison import Comparison, RemovedRun, RunItem, Setups, Versions
from scouter.client.models.evaluations import (
    Distributions,
    Evaluation,
    Failures,
    TaskRates,
    TaskSeries,
)
from scouter.client.request import COMMIT_S, Moment, arguments
from scouter.evaluate.outcome import Outcome


class EvaluationSearch(TypedDict, total=False):
    """Properties that an evaluation has, all of them."""

    profile: str | None
    record_id: str | None
    session_id: str | None
    trace_id: str | None
    outcome: Outcome | str | None
    task_id: str | None
    task_outcome: Outcome | str | None
    service_name: str | None
    service_version: str | None
    environment: str | None
    tags: Mapping[str, str] | None
    setup: str | None
    user_id: str | None
    attributes: Mapping[str, str] | None
    since: Moment | None
    until: Moment | None


if TYPE_CHECKING:
    from scouter.evaluate.api.records import EvalResults
    from scouter.evaluate.api.replay import ScenarioEvalResults


class EvaluationRoutes(Connection):
    """Routes of evaluations, rates of tasks, offline runs and comparisons."""

    def evaluations(
        self, *, limit: int | None = None, **search: Unpack[EvaluationSearch]
    ) -> Pages[Evaluation]:
        """Evaluations, newest first; each record and each session once, in its latest revision.

        Args:
            limit: Items per page, 1 to 1000; all pages are read, one after the other.
            profile: Alias, name, uid or digest.
            record_id: The user's name for a record.
            session_id: Of the record.
            trace_id: Of the record.
            outcome: Of the record; `not_passed` is what failed or errored.
            task_id: Evaluations with this task.
            task_outcome: How that task, or any task, ended; as `outcome`.
            service_name: Of the record's service.
            service_version: Of the record's service.
            environment: Of the record's service.
            tags: Of the record; all of them.
            setup: `kind=value` that a span reports, such as `fingerprint=fp_1`; see `setups`.
            user_id: That a span of its trace names.
            attributes: Values of attributes of spans of its trace; all of them.
            since: Evaluated at this time or later.
            until: Evaluated before this time.
        """
        return self._pages(Evaluation, "/evaluations", arguments(locals(), EvaluationSearch))

    def evaluation_facets(self, **search: Unpack[EvaluationSearch]) -> FacetList:
        """Evaluations by outcome, profile, task, service, version, environment and tag.

        The newest are counted first, for about 0.3 s.
        """
        return self._get(FacetList, "/facets/evaluations", arguments(locals(), EvaluationSearch))

    def evaluation(self, evaluation_id: str) -> Evaluation:
        """One evaluation.

        Args:
            evaluation_id: As a list of evaluations has it.
        """
        return self._get(Evaluation, "/evaluations/{evaluation_id}", arguments(locals()))

    def tasks(
        self,
        *,
        profile: str | None = None,
        service_version: str | None = None,
        environment: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        bucket: str | None = None,
        points: int | None = None,
        usage: bool | None = None,
    ) -> TaskRates:
        """Outcomes and pass rate of every task.

        Args:
            profile: Alias, name, uid or digest.
            service_version: Of the records' service.
            environment: Of the records' service.
            since: Evaluated at this time or later.
            until: Evaluated before this time.
            bucket: Length of a bucket, such as `1h`: each rate has its `line` over time then. It
                needs `since`.
            points: In place of `bucket`: so many buckets at most from the first result on.
            usage: With what judges took for these results.
        """
        return self._get(TaskRates, "/tasks", arguments(locals()))

    def task_series(
        self,
        *,
        profile: str | None = None,
        task_id: str | None = None,
        service_version: str | None = None,
        environment: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        bucket: str | None = None,
        points: int | None = None,
    ) -> TaskSeries:
        """The same, in buckets of time.

        Args:
            profile: Alias, name, uid or digest.
            task_id: One task.
            service_version: Of the records' service.
            environment: Of the records' service.
            since: Evaluated at this time or later.
            until: Evaluated before this time.
            bucket: Length of a bucket in seconds, minutes, hours or days, such as `1h`.
            points: In place of `bucket`: so many buckets at most from the first result on. It needs
                `since`.
        """
        return self._get(TaskSeries, "/tasks/series", arguments(locals()))

    def task_distributions(
        self,
        profile: str,
        task_id: str,
        *,
        service_version: str | None = None,
        environment: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        split: Moment | None = None,
    ) -> Distributions:
        """Scores of a task and durations of its traces, of the newest 2,000 results.

        Args:
            profile: Alias, name, uid or digest.
            task_id: The task.
            service_version: Of the records' service.
            environment: Of the records' service.
            since: Evaluated at this time or later.
            until: Evaluated before this time.
            split: Results before this time are counted apart.
        """
        return self._get(Distributions, "/tasks/distributions", arguments(locals()))

    def task_failures(
        self,
        profile: str,
        task_id: str,
        *,
        service_version: str | None = None,
        environment: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        split: Moment | None = None,
    ) -> Failures:
        """Groups of a task's results that failed or errored, each with its share before and since.

        Args:
            profile: Alias, name, uid or digest.
            task_id: The task.
            service_version: Of the records' service.
            environment: Of the records' service.
            since: Evaluated at this time or later.
            until: Evaluated before this time.
            split: Results before this time are counted apart.
        """
        return self._get(Failures, "/tasks/failures", arguments(locals()))

    def runs(self) -> Iterator[RunItem]:
        """Results of offline runs that the collector stores, the one that came last first."""
        return self._pages(RunItem, "/runs", {})

    def push_run(
        self, results: "ScenarioEvalResults | EvalResults | Mapping[str, JsonValue]", name: str = ""
    ) -> RunItem:
        """Have the collector store the results of a run, at most 32 MiB. Needs the scope ingest.

        Args:
            results: Of a replay or of records, or what their `save` writes.
            name: For people; by default agent and version, as far as the results tell.
        """
        body: dict[str, JsonValue] = (
            dict(results)
            if isinstance(results, Mapping)
            else cast("dict[str, JsonValue]", json.loads(results.model_dump_json()))
        )
        return self._post(RunItem, "/runs", {"name": name or None}, body, takes_s=COMMIT_S)

    def remove_run(self, run_id: str) -> RemovedRun:
        """Take a run out of the collector. Needs the scope admin.

        Args:
            run_id: As a list of runs has it.
        """
        return self._post(RemovedRun, "/runs/{run_id}/remove", {"run_id": run_id})

    def versions(self, profile: str) -> Versions:
        """Versions of the service behind the newest evaluations of a profile, the newest first.

        Args:
            profile: Alias, name, uid or digest.
        """
        return self._get(Versions, "/versions", arguments(locals()))

    def setups(self, **search: Unpack[EvaluationSearch]) -> Setups:
        """Setup of the records that a filter names, and its times: prompt, tools, model.

        Args:
            search: As of `evaluations`.
        """
        return self._get(Setups, "/setups", arguments(locals(), EvaluationSearch))

    def comparison(
        self,
        profile: str | None = None,
        *,
        before_version: str | None = None,
        before_since: Moment | None = None,
        before_until: Moment | None = None,
        before_run: str | None = None,
        version: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        run: str | None = None,
        environment: str | None = None,
        require_ruled_out: float | None = None,
        limit: int | None = None,
    ) -> Comparison:
        """Two versions, two periods, or an offline run and what is live, compared.

        Args:
            profile: Alias; needed where a side is live.
            before_version: Of the service, of the baseline.
            before_since: Evaluations of the baseline from this time on.
            before_until: Those before this time.
            before_run: The baseline is this run.
            version: Of the service, of the side in question; and so on.
            since: See `before_since`.
            until: See `before_until`.
            run: See `before_run`.
            environment: Of the live sides.
            require_ruled_out: Inconclusive where a fall of more points is not ruled out.
            limit: Newest records of each live side that are compared; 2,000 by default, at most
                10,000.
        """
        return self._get(Comparison, "/comparison", arguments(locals()))
