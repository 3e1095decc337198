"""Faults that a profile would see, tried on the newest traces that passed it."""

import json
from asyncio import Lock
from collections.abc import Mapping
from typing import Final

from starlette.concurrency import run_in_threadpool

from collector.web.profile import profile_body
from collector.web.source import AskError, Shown, Source
from collector.web.trace import path_of
from scouter.client.models.answer import Page
from scouter.client.models.evaluations import Evaluation
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.mutate.score import MutationScore, mutation_score
from scouter.model.otlp_json import spans_from_otlp_json
from scouter.model.span import Span

_TRACES: Final = 30
"""Traces that are read, the newest that passed."""
_MUTANTS: Final = 10
"""Mutants of a kind: the collector's own work goes on meanwhile, on the same processor."""
_BYTES: Final = 500_000
"""Size of a trace, as JSON; larger ones are left out."""
_one_at_a_time: Final = Lock()


async def faults_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect which faults a profile sees.

    Args:
        source: Asks the API.
        given: `profile`, its alias; `digest` of a version, by default the active one.

    Raises:
        AskError: The API refused, or there is no such profile or version.
    """
    alias, digest = given.get("profile", ""), given.get("digest", "")
    profile = AgentEvalProfile.model_validate(await profile_body(source, alias, digest))
    passed = await source.get(
        Page[Evaluation], "evaluations", profile=profile.digest, outcome="passed", limit=_TRACES
    )
    score: MutationScore | None = None
    problem = ""
    shown: Shown = {"alias": alias, "digest": digest, "score": None, "most": _TRACES}
    async with _one_at_a_time:
        spans: list[Span] = []
        for trace_id in {each.trace_id: None for each in passed.items if each.trace_id}:
            spans += await _spans_of(source, trace_id)
        if not spans:
            return {**shown, "problem": "no stored trace has passed this profile yet"}
        try:
            score = await run_in_threadpool(mutation_score, profile.tasks, spans, most=_MUTANTS)
        except ConfigError as error:
            problem = str(error)
    return {**shown, "score": score, "problem": problem}


async def _spans_of(source: Source, trace_id: str) -> list[Span]:
    """The spans of a trace; none of one that is large, or was deleted meanwhile."""
    try:
        found = await source.file(f"{path_of(trace_id)}/export")
    except AskError:
        return []
    if len(found.content) > _BYTES:
        return []
    return spans_from_otlp_json(json.loads(found.content)).spans
