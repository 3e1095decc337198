"""A config file from its dataset to its result files."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from scouter.agent.cache.cached_judge import CachedJudge
from scouter.agent.cache.port import JudgeCache
from scouter.agent.cache.sqlite import SqliteCache, cache_file, usual_cache_file
from scouter.agent.entries import ProviderEntries
from scouter.agent.model_judge import ModelJudge
from scouter.errors import ConfigError
from scouter.evaluate.engine.judged import run_apart
from scouter.evaluate.judge.asked_judge import slots_of
from scouter.evaluate.judge.port import Judge
from scouter.evaluate.report.item import EvalItem
from scouter.evaluate.report.verdicts import EvaluatorOutput, ItemVerdict
from scouter.evaluate.results.provenance import name_of
from scouter.formats.nvidia.asking import Asking, ask_all
from scouter.formats.nvidia.config import EvalFile, read_config
from scouter.formats.nvidia.dataset import Sizing, read_dataset
from scouter.formats.nvidia.evaluators import Evaluator, Evaluators
from scouter.formats.nvidia.journal import RunJournal, digest_of
from scouter.formats.nvidia.llms import NamedLlms
from scouter.formats.nvidia.outputs import (
    LATENCY,
    WORKFLOW,
    Answered,
    OutputDir,
    evaluator_file,
    latency_summary,
    summary_lines,
    workflow_output,
)
from scouter.formats.nvidia.turns import Conversation, conversations_of, wanted_methods
from scouter.replay.named_run import named_judge


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaRun:
    """Files, agent, judge and limits of one run.

    Args:
        config: The config file.
        agent: `module:name`, or the agent itself, in the place of the file's `workflow`.
        judge: `module:name`, or the judge itself, in the place of the file's `llms`.
        providers: File with provider entries; without it that of the user's settings.
        judge_cache: Keeps answers of models: a file, `none` for nothing, or a cache; without it
            `usual_cache`, and nothing for a judge of the user's own.
        usual_cache: A cache in the place of the file of the user's settings.
        judge_budget_usd: Most that may be spent on the judge.
        judge_timeout_s: Seconds for one answer.
        repeats: Runs of each row.
        timeout_s: Seconds for the conversation of a row.
        retries: More tries for a row whose agent raised.
        progress: False: no progress bar; None: one if a person watches.
        environ: Environment in which `DATASET_FILTER` and the file's variables are looked up.
        note: Called with a sentence about each setting that is not used.
    """

    config: Path
    agent: object
    judge: object = None
    providers: Path | None = None
    judge_cache: str | Path | JudgeCache | None = None
    usual_cache: JudgeCache | None = None
    judge_budget_usd: float | None = None
    judge_timeout_s: float | None = None
    repeats: int = 1
    timeout_s: float | None = None
    retries: int = 0
    progress: bool | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    note: Callable[[str], None] = _say


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaResults:
    """Answers and verdicts of a run, with the folder of its result files."""

    answered: tuple[Answered, ...]
    outputs: Mapping[str, EvaluatorOutput]
    output_dir: Path
    left_out: tuple[str, ...] = ()
    """Evaluators of the file that are not known here, in words."""

    @property
    def n_judged(self) -> int:
        """Verdicts with a score."""
        verdicts = (each for output in self.outputs.values() for each in output.items)
        return sum(each.score is not None for each in verdicts)

    @property
    def n_errored(self) -> int:
        """Verdicts that are missing, and items that the agent did not answer."""
        failed = sum(bool(each.item.failure) for each in self.answered)
        return failed + sum(output.n_errored for output in self.outputs.values())

    @property
    def lines(self) -> list[str]:
        """The results in a few lines, for people."""
        return [*summary_lines(self.outputs, self.answered), f"Results: {self.output_dir}"]


def run_config(run: NvidiaRun) -> NvidiaResults:
    """Ask the agent every row of the dataset, evaluate, and write the result files.

    Answers and verdicts are written down as they come; the same command takes an interrupted run
    up. Nothing in the output folder is deleted; result files of the same names are replaced.

    Raises:
        ScouterError: A file, a name or an argument is wrong.
    """
    file = read_config(run.config, run.environ)
    for note in file.notes:
        run.note(note)
    conversations = _conversations(file, run)
    out = OutputDir(file.output_dir)
    llms = NamedLlms.of(file.llms, ProviderEntries.from_settings(run.providers), run.note)
    own = named_judge(run.judge, run.judge_timeout_s)
    judge = own or ModelJudge(
        llms.entries, budget_usd=run.judge_budget_usd, timeout_s=run.judge_timeout_s
    )
    cache = _cache(run, is_own=own is not None)
    answering: Judge = judge if cache is None else CachedJudge(judge, cache)
    with nullcontext() if cache is None else closing(cache):
        _evaluators(file, llms, judge)  # what is missing is said before the agent is asked
        journal = RunJournal.open(out.path, _digest(file, conversations, run.agent))
        asking = Asking(
            agent=run.agent, concurrency=file.general.max_concurrency, timeout_s=run.timeout_s,
            retries=run.retries, progress=run.progress, note=run.note,
        )  # fmt: skip
        with redirect_stdout(sys.stderr):
            answered = ask_all(conversations, asking, journal.answers)
        structure, id_key = file.general.dataset.structure, file.general.dataset.id_key
        out.write(WORKFLOW, workflow_output(answered, structure, id_key))
        out.write(LATENCY, latency_summary(answered))
        items = [each.item for each in answered]
        outputs = run_apart(lambda: _evaluate(file, llms, answering, items, journal, out))
    journal.finish()
    return NvidiaResults(
        answered=tuple(answered), outputs=outputs, output_dir=out.path, left_out=file.left_out
    )


def _conversations(file: EvalFile, run: NvidiaRun) -> list[Conversation]:
    wanted = wanted_methods(run.environ)
    config = file.general.dataset
    if config.file_path is None:
        raise ConfigError(f"{file.path}: eval.general.dataset has no file_path; name a local file")
    sizing = Sizing(repeats=run.repeats, concurrency=file.general.max_concurrency)
    items = read_dataset(
        file.beside(config.file_path), config,
        compat=file.general.compat, sizing=sizing, note=run.note,
    )  # fmt: skip
    found = conversations_of(items, wanted, config.structure)
    if not found:
        raise ConfigError(f"{file.path}: no row of the dataset is wanted")
    return found


def _digest(file: EvalFile, conversations: Sequence[Conversation], agent: object) -> str:
    """A name for this run: the same file, rows, filter and agent take it up again."""
    # The key of a conversation is made anew for each run.
    rows = [
        [str(turn.id), {name: value for name, value in turn.entry.items() if name[:1] != "_"}]
        for each in conversations
        for turn in each.turns
    ]
    evaluators = {name: each.model_dump(mode="json") for name, each in file.evaluators.items()}
    llms = {name: each.model_dump(mode="json") for name, each in file.llms.items()}
    parts = [name_of(agent), rows, evaluators, llms, file.general.compat]
    return digest_of(cast("JsonValue", parts))


def _cache(run: NvidiaRun, *, is_own: bool) -> JudgeCache | None:
    """Open the cache for the judge's answers; None where they are not kept."""
    named = run.judge_cache
    if named is None:
        if is_own or run.usual_cache is not None:
            return None if is_own else run.usual_cache
        path = usual_cache_file()
    elif isinstance(named, str | Path):
        path = cache_file(str(named))
    else:
        return named
    return None if path is None else SqliteCache(path)


def _evaluators(file: EvalFile, llms: NamedLlms, judge: Judge) -> Mapping[str, Evaluator]:
    return Evaluators(file, llms, judge, slots_of(file.general.max_concurrency)).make()


async def _evaluate(
    file: EvalFile,
    llms: NamedLlms,
    judge: Judge,
    items: Sequence[EvalItem],
    journal: RunJournal,
    out: OutputDir,
) -> Mapping[str, EvaluatorOutput]:
    """Run all evaluators at a time; each writes its file when it is done."""
    evaluators = _evaluators(file, llms, judge)

    async def one(name: str, evaluator: Evaluator) -> EvaluatorOutput:
        left = [item for item in items if (name, str(item.id)) not in journal.verdicts]

        def keep(verdict: ItemVerdict) -> None:
            journal.add(name, verdict)

        found = await evaluator.evaluate_async(left, keep)
        new = iter(found.items)
        known = [journal.verdicts.get((name, str(item.id))) for item in items]
        verdicts = tuple(next(new) if each is None else each for each in known)
        output = EvaluatorOutput(items=verdicts, compat=found.compat, with_vlm=found.with_vlm)
        out.write(evaluator_file(name), output.to_json())
        return output

    found = await asyncio.gather(*(one(name, each) for name, each in evaluators.items()))
    return dict(zip(evaluators, found, strict=True))
