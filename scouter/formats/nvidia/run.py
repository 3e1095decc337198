"""ConfigEval: what a config file describes, as cases and tasks of a run, and its result files."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final

from pydantic import JsonValue

from scouter.agent.entries import ProviderEntries
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.files.versioned import write_whole
from scouter.evaluate.report.evaluator import (
    METHODS_KEY,
    EvalItem,
    EvaluatorOutput,
    ItemVerdict,
    errored,
    skipped,
)
from scouter.evaluate.results.provenance import name_of
from scouter.evaluate.scenario import scenarios_digest
from scouter.formats.nvidia.asking import RowOrchestrator
from scouter.formats.nvidia.cases import Answered, Cases, row_of
from scouter.formats.nvidia.config import EvalFile, Structure, read_config
from scouter.formats.nvidia.dataset import read_dataset
from scouter.formats.nvidia.evaluators import Evaluator, Evaluators, reference_of
from scouter.formats.nvidia.llms import NamedLlms
from scouter.formats.nvidia.turns import (
    CONVERSATION_ID_KEY,
    FILTER_VARIABLE,
    Conversation,
    conversations_of,
    stored_conversations,
    turn_id,
    wanted_methods,
)
from scouter.formats.turns import ALIAS, LOST, NOT_CALLED, turn_name
from scouter.replay.named_run import NamedRun, Ran, run_both
from scouter.replay.recorded import judge_stored

WORKFLOW: Final = "workflow_output.json"
LATENCY: Final = "latency_summary.json"
_DIGITS: Final = 3


def made(folder: Path) -> Path:
    """Make a folder for results; what is there and is not a result of ours stays as it is.

    Raises:
        ConfigError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"output_dir {str(folder)!r}: {error}") from error
    return folder


def write_json(target: Path, value: JsonValue) -> None:
    """Write one file, as a whole or not at all.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        write_whole(target, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ConfigError(f"{target}: {error}") from error


def workflow_output(
    answered: Sequence[Answered], structure: Structure, id_key: str
) -> list[JsonValue]:
    """Write the agent's answers, with the rows' own columns."""
    return [row_of(each.item, structure, id_key) for each in answered]


def evaluator_file(name: str) -> str:
    """The file of an evaluator's verdicts."""
    return f"{name}_output.json"


def latency_summary(answered: Sequence[Answered]) -> JsonValue:
    """Write the seconds of each item and their mean; items that did not run have none."""
    known = [each.latency_s for each in answered if each.latency_s is not None]
    return {
        "average_latency_seconds": round(fmean(known), _DIGITS) if known else None,
        "items": [
            {
                "id": each.item.id,
                "query": each.item.question,
                "latency_seconds": None if each.latency_s is None else round(each.latency_s, 3),
            }
            for each in answered
        ],
    }


_JOURNALS: Final = ".scouter"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


class ConfigEval:
    """An evaluation that a config file of NeMo Agent Toolkit describes.

    Args:
        config: The config file.
        dataset: The dataset, in the place of the one that the file names; a `workflow_output.json`
            of an earlier run is one.
        has_agent: False scores the answers that the dataset holds.
        min_scores: By evaluator, the score from which on a row passes; the file says none, and
            without one every score passes.
        providers: File with provider entries; without it that of the user's settings.
        environ: Environment in which `DATASET_FILTER` and the file's variables are looked up.
        note: Called with a sentence about each setting that is not used.

    Raises:
        ScouterError: A file or a name is wrong.
    """

    def __init__(
        self,
        config: str | Path,
        *,
        dataset: Path | None = None,
        has_agent: bool = True,
        min_scores: Mapping[str, float] | None = None,
        providers: Path | None = None,
        environ: Mapping[str, str] | None = None,
        note: Callable[[str], None] = _say,
    ) -> None:
        environ = os.environ if environ is None else environ
        file = self.file = read_config(config, environ)
        for each in file.notes:
            note(each)
        self.has_agent = has_agent
        settings = file.general.dataset
        self._lost: list[str] = []
        reading = environ, note, self._lost.append
        conversations = _conversations(file, dataset, *reading, has_agent=has_agent)
        self.cases = Cases.of(conversations, settings.structure, settings.id_key)
        self.scenarios = self.cases.scenarios(partial(reference_of, file))
        llms = NamedLlms.of(file.llms, ProviderEntries.from_settings(providers), note)
        self.evaluators = Evaluators(file, llms, self.cases, min_scores or {}).make()
        self._entries = llms.entries

    @property
    def concurrency(self) -> int:
        """Most cases at a time, as the file says."""
        return self.file.general.max_concurrency

    def prepared(self, run: NamedRun) -> NamedRun:
        """Give a run the models of the file, its tasks, and a journal where it has none.

        So the same command goes on where an interrupted one ended.

        Raises:
            ConfigError: The folder of the results cannot be made.
        """
        profile = AgentEvalProfile([each.task for each in self.evaluators], alias=ALIAS)
        run = replace(run, profiles=(profile, *run.profiles), entries=self._entries)
        if not self.has_agent or run.resume is not None:
            return run
        versions = name_of(run.agent), "" if run.interleave is None else name_of(run.interleave)
        parts = *versions, profile.digest, scenarios_digest(self.scenarios)
        name = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        folder = made(self.file.output_dir / _JOURNALS)
        return replace(run, resume=folder / f"{name}.jsonl")

    def run(self, run: NamedRun) -> tuple[Ran, Mapping[str, EvaluatorOutput]]:
        """Run the cases, judge them, and write the result files.

        Nothing in the folder of the results is deleted; result files of the same names are
        replaced.

        Args:
            run: From `prepared`.

        Returns:
            The run, and the output of each evaluator.

        Raises:
            ScouterError: A name or an argument of the run is wrong, or a file cannot be written.
        """
        out, scenarios = made(self.file.output_dir), self.scenarios
        if self.has_agent:
            ran = run_both(
                scenarios, replace(run, orchestrator=partial(RowOrchestrator, self.cases))
            )
        else:
            results = judge_stored(scenarios, run, self.cases.collect_stored)
            ran = Ran(results=results, baseline=run.baseline)
        found = list(self._found(ran.results))
        if self.has_agent:
            answered = [each for each, _ in found]
            dataset = self.file.general.dataset
            write_json(out / WORKFLOW, workflow_output(answered, dataset.structure, dataset.id_key))
            write_json(out / LATENCY, latency_summary(answered))
        outputs: dict[str, EvaluatorOutput] = {}
        for each in self.evaluators:
            judged = [self._judged(each, answered.item, uid) for answered, uid in found]
            outputs[each.name] = each.scorer.output(judged)
            write_json(out / evaluator_file(each.name), outputs[each.name].to_json())
        left_out = (*self.file.left_out, *self._lost)
        results = ran.results.model_copy(update={"left_out": left_out})
        _forget(run.resume, out / _JOURNALS, is_over=not ran.is_interrupted)
        return replace(ran, results=results), outputs

    def _found(self, run: ScenarioEvalResults) -> Iterator[tuple[Answered, str]]:
        """All items of a run with the uids of their records, as the toolkit repeats a dataset."""
        uids = {
            (each.scenario_id, each.attempt, each.record_id): each.record.record_uid
            for each in run.dataset_results.get(ALIAS, ())
        }
        errors = {(each.scenario_id, each.attempt): each.error for each in run.scenario_results}
        for attempt in range(run.repeats):
            for name, conversation in self.cases.by_name.items():
                failure = errors.get((name, attempt)) or LOST
                for turn, item in enumerate(conversation.turns):
                    uid = uids.get((name, attempt, turn_name(turn)), "")
                    found = self.cases.answered.get(uid)
                    if found is None:
                        found = Answered(item=replace(item, answer=None, failure=failure))
                        failure = NOT_CALLED
                    if run.repeats > 1:
                        repeated = _repeated(conversation, found.item, turn, attempt)
                        found = replace(found, item=repeated)
                    yield found, uid

    def _judged(self, evaluator: Evaluator, item: EvalItem, uid: str) -> ItemVerdict:
        found = self.cases.judged.get((evaluator.name, uid))
        if found is not None:
            return replace(found, id=item.id)
        method, wanted = evaluator.scorer.evaluation_method_id, item.entry.get(METHODS_KEY)
        if method and isinstance(wanted, list) and method not in wanted:
            return skipped(item, method)
        return errored(item, f"the agent failed: {item.failure}")


def _conversations(
    file: EvalFile,
    dataset: Path | None,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    lost: Callable[[str], None],
    *,
    has_agent: bool,
) -> list[Conversation]:
    config = file.general.dataset
    if dataset is None:
        if config.file_path is None:
            raise ConfigError(
                f"{file.path}: eval.general.dataset has no file_path; name a local file"
            )
        dataset = file.beside(config.file_path)
    items = read_dataset(dataset, config, compat=file.general.compat, note=note, lost=lost)
    if has_agent:
        found = conversations_of(items, wanted_methods(environ), config.structure)
    else:
        if FILTER_VARIABLE in environ:
            note(f"{FILTER_VARIABLE} is not used: it says which rows an agent gets")
        found = stored_conversations(items)
        key = config.structure.generated_answer_key
        if items and not any(key in item.entry for item in items):
            raise ConfigError(
                f"{dataset}: no row has {key!r}, the agent's answer; give --agent, or the "
                f"{WORKFLOW} of an earlier run in the place of the dataset"
            )
    if not found:
        why = "by DATASET_FILTER" if items else "as it has none, or none that passes the filter"
        raise ConfigError(f"{dataset}: no row of the dataset is wanted, {why}")
    return found


def _repeated(conversation: Conversation, item: EvalItem, turn: int, attempt: int) -> EvalItem:
    """Name an item as the toolkit names it where rows are repeated."""
    name = f"{conversation.id}_rep{attempt}"
    if conversation.is_single:
        return replace(item, id=name)
    own = f"{item.entry[CONVERSATION_ID_KEY]}_rep{attempt}"  # or all repeats would be one
    entry = {**item.entry, CONVERSATION_ID_KEY: own}
    return replace(item, id=f"{name}_{turn_id(item, turn)}", entry=entry)


def _forget(journal: Path | None, folder: Path, *, is_over: bool) -> None:
    """Remove a journal of ours once its run is over: the next one asks anew."""
    if journal is None or journal.parent != folder or not is_over:
        return
    journal.unlink(missing_ok=True)
    with suppress(OSError):  # another run may have its files there
        folder.rmdir()
