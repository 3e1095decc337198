"""Parts of a record that follow from its profile: a scenario made of it, and expected calls."""

from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Path
from starlette.responses import Response

from collector.api.evaluations import evaluation_answer
from collector.api.parameters import NOT_FOUND, Reader, caught_up_router
from collector.api.parts import TheJudges, TheRegistry, TheStore
from collector.comparing.trajectories import Trajectory, trajectories_of
from collector.problem import ProblemError, problems
from collector.store.record_queries import RecordHistory
from collector.store.rows import Scope
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry
from scouter.client.conversation import read_conversation
from scouter.client.harvest import harvested
from scouter.client.harvest_file import scenario_yaml
from scouter.client.models.evaluations import Evaluation
from scouter.client.models.records import TaskTrajectories, TaskTrajectory, ToolCall
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.trajectory.call import Call
from scouter.model.span import Span

YAML: Final = "application/yaml"
_Uid = Annotated[str, Path(max_length=512)]


@cache
def record_parts_router() -> APIRouter:
    """Make the routes below `/api/v1/scenarios` and `/api/v1/trajectories`."""
    router = caught_up_router()

    def read(
        store: Store, registry: ProfileRegistry, space: str, uid: str
    ) -> tuple[RecordHistory, list[Span], AgentEvalProfile | None]:
        found = store.record_history(space, uid)
        if found is None:
            raise ProblemError(404, f"no record {uid!r} is stored; it may have been erased")
        trace_id = found.record.trace_id
        spans = store.spans_of(space, [trace_id]).get(trace_id, []) if trace_id else []
        latest = found.evaluations[0] if found.evaluations else None
        known = None if latest is None else registry.get(space, latest.profile_uid)
        return found, spans, None if known is None else known.profile

    @router.get(
        "/scenarios/{uid:path}",
        responses={**NOT_FOUND, **problems(409), 200: {"content": {YAML: {}}}},
        response_class=Response,
    )
    def scenario(
        store: TheStore, judges: TheJudges, registry: TheRegistry, caller: Reader, uid: _Uid
    ) -> Response:
        """A record as a scenario file, as `scouter scenarios harvest` writes it."""
        found, spans, profile = read(store, registry, caller.space, uid)
        evaluation = found.evaluations[0] if found.evaluations else None
        if (
            evaluation is None
            or evaluation.outcome is Outcome.PENDING
            or evaluation.scope is Scope.SESSION
        ):
            raise ProblemError(409, f"the record {uid!r} has no evaluation yet")
        conversation = read_conversation(SpanTree(spans).spans, found.record.context)
        if conversation is None:
            raise ProblemError(
                409,
                "neither the spans nor the context say what the user asked, and a scenario asks "
                "it; see docs/harvest.md for the names that are read",
            )
        answer = evaluation_answer(evaluation, judges).model_dump(mode="json")
        turn = (Evaluation.model_validate(answer), conversation)
        item = harvested([turn], found.record.context, profile)
        return Response(scenario_yaml("harvested", [item]), media_type=YAML)

    @router.get("/trajectories/{uid:path}", responses=NOT_FOUND)
    def trajectories(
        store: TheStore, registry: TheRegistry, caller: Reader, uid: _Uid
    ) -> TaskTrajectories:
        """The calls that the tasks on a record expect, beside those that were made."""
        found, spans, profile = read(store, registry, caller.space, uid)
        if profile is None:
            return TaskTrajectories(items=())
        made = trajectories_of(profile, found.record.context, spans)
        return TaskTrajectories(items=tuple(_item(each) for each in made))

    return router


def _item(each: Trajectory) -> TaskTrajectory:
    return TaskTrajectory(
        task_id=each.task_id,
        expected=tuple(_call(call) for call in each.expected),
        actual=tuple(_call(call) for call in each.actual),
    )


def _call(call: Call) -> ToolCall:
    return ToolCall(
        name=call.name, arguments=call.arguments, result=None, error="", duration_ms=None
    )
