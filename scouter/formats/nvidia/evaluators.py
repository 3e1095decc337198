"""The evaluators that a config file asks for, each a task of the run."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue, ValidationError

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.engine.checks import run_check
from scouter.evaluate.files.read import read_document
from scouter.evaluate.judge.loops import at_once
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.report.evaluator import (
    METHODS_KEY,
    EvalItem,
    ItemEvaluator,
    ItemVerdict,
    errored,
)
from scouter.evaluate.report.field_judge import DISCOVERY_FORM, SINGLE_FORM
from scouter.evaluate.report.field_metrics import JUDGE, Compat, MetricsConfig
from scouter.evaluate.report.qa_evaluator import QA_FORM, QAEvaluator
from scouter.evaluate.report.report_evaluator import FolderStore, ReportEvaluator
from scouter.evaluate.report.trajectory_evaluator import TrajectoryEvaluator
from scouter.evaluate.tasks.function import FunctionTask
from scouter.evaluate.tasks.trajectory import WITH_REFERENCE, WITHOUT_REFERENCE
from scouter.formats.nvidia.cases import Cases, Row
from scouter.formats.nvidia.config import (
    CheckConfig,
    EvalFile,
    EvaluatorConfig,
    QAConfig,
    ReportConfig,
    TrajectoryConfig,
)
from scouter.formats.nvidia.llms import NamedLlms

_ELSEWHERE: Final = {
    "type", "llm_name", "eval_metrics_config_path", "reference_base_dir", "object_store",
    "tool_schemas", "max_retries", "metric_configs",
}  # fmt: skip
"""Settings of an evaluator whose meaning is in its prompt or in a file, or that change no score."""
_LIMIT_S: Final = 10.0
"""Seconds after which a check is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """An evaluator of a file, with the task that runs it."""

    name: str
    scorer: ItemEvaluator
    task: FunctionTask


class CheckEvaluator(ItemEvaluator):
    """Scores items by a check in Python.

    Args:
        check: Its name.
        row_of: Gives what it reads of an item.
    """

    def __init__(self, check: str, row_of: Callable[[EvalItem], Row]) -> None:
        super().__init__("", "sound", max_concurrency=1)
        self._check, self._row_of = check, row_of

    async def judge_item(self, item: EvalItem) -> ItemVerdict:
        """Run the check; where the agent failed there is nothing to check."""
        if item.failure:
            return errored(item, f"the agent failed: {item.failure}")
        try:
            value, reported = run_check(self._check, self._row_of(item), (), _LIMIT_S)
        except TaskFault as fault:
            return errored(item, str(fault), fault.reason)
        return ItemVerdict(id=item.id, score=float(value), reasoning=reported)


class Evaluators:
    """Makes the evaluators of one file.

    Args:
        file: The config.
        llms: Its models.
        cases: The cases whose records are judged; they get the verdicts.
        min_scores: By evaluator, the score from which on a row passes.
    """

    def __init__(
        self, file: EvalFile, llms: NamedLlms, cases: Cases, min_scores: Mapping[str, float]
    ) -> None:
        self._file, self._llms, self._cases = file, llms, cases
        self._least = {name.lower(): least for name, least in min_scores.items()}
        self._compat: Compat = file.general.compat

    def make(self) -> list[Evaluator]:
        """Make all.

        Raises:
            ConfigError: One names a file, a model or a store that is not there, or a least score
                belongs to none of them.
        """
        named = self._file.evaluators
        for name in self._least:
            if name not in {each.lower() for each in named}:
                known = ", ".join(named) or "none"
                raise ConfigError(f"no evaluator {name!r} gives a score; they are {known}")
        made: list[Evaluator] = []
        for name, config in named.items():
            try:
                made.append(self._one(name, config))
            except (ConfigError, ValidationError) as error:
                raise ConfigError(f"evaluator {name!r}: {error}") from error
        return made

    def _one(self, name: str, config: EvaluatorConfig) -> Evaluator:
        match config:
            case ReportConfig():
                return self._report(name, config)
            case QAConfig():
                form = config.custom_prompt_template or QA_FORM
                scorer = QAEvaluator(
                    self._llms.judge(config.llm_name, config.max_retries),
                    evaluation_method_id=config.evaluation_method_id,
                    custom_prompt_template=config.custom_prompt_template,
                    llm_judge_reasoning=config.llm_judge_reasoning,
                    compat=self._compat,
                )
                prompt = self._llms.prompt(config.llm_name, [form])
                return self._made(name, scorer, config, prompt, config.max_retries)
            case TrajectoryConfig():
                return self._trajectory(name, config)
            case CheckConfig():
                scorer = CheckEvaluator(config.type, self._cases.row)
                return self._made(name, scorer, config, None, 0)

    def _made(
        self,
        name: str,
        scorer: ItemEvaluator,
        config: EvaluatorConfig,
        prompt: Prompt | None,
        max_retries: int,
        **more: JsonValue,
    ) -> Evaluator:
        least = self._least.get(name.lower())
        function = _Scoring(name=name, scorer=scorer, cases=self._cases)
        task = FunctionTask(
            name,
            function.asking if prompt is not None else function.at_once,
            prompt=prompt,
            max_retries=0 if prompt is None else max_retries,
            settings={
                "type": config.type,
                "compat": self._compat,
                **config.model_dump(mode="json", exclude=_ELSEWHERE, exclude_defaults=True),
                **more,
            },
            # Nobody says from which score on an answer is good, so that every score passes.
            operator=(
                ComparisonOperator.IsNumeric
                if least is None
                else ComparisonOperator.GreaterThanOrEqual
            ),
            expected_value=least,
        )
        return Evaluator(name=name, scorer=scorer, task=task)

    def _trajectory(self, name: str, config: TrajectoryConfig) -> Evaluator:
        schemas = None
        if config.tool_schemas is not None:
            document = read_document(self._file.beside(config.tool_schemas))
            schemas = document.value if isinstance(document.value, list) else [document.value]
        with_reference = config.custom_prompt_template_with_reference
        without_reference = config.custom_prompt_template_without_reference
        scorer = TrajectoryEvaluator(
            self._llms.judge(config.llm_name, config.max_retries),
            evaluation_method_id=config.evaluation_method_id,
            track_agent_selected_tools_only=config.track_agent_selected_tools_only,
            custom_prompt_template_with_reference=with_reference,
            custom_prompt_template_without_reference=without_reference,
            tool_schemas=schemas,
            llm_judge_reasoning=config.llm_judge_reasoning,
            compat=self._compat,
        )
        forms = [with_reference or WITH_REFERENCE, without_reference or WITHOUT_REFERENCE]
        prompt = self._llms.prompt(config.llm_name, forms)
        more: dict[str, JsonValue] = {}
        if schemas is not None:
            more["tool_schemas"] = list[JsonValue](schemas)
        return self._made(name, scorer, config, prompt, config.max_retries, **more)

    def _report(self, name: str, config: ReportConfig) -> Evaluator:
        path = self._file.beside(config.eval_metrics_config_path)
        metrics = MetricsConfig.from_file(path, self._compat)
        reported, judge, prompt = config.metric_configs.llm_judge, None, None
        if reported is not None:
            judge = self._llms.judge(reported.llm_name, reported.max_retries)
            single = reported.single_field_comparison_prompt or SINGLE_FORM
            discovery = reported.multi_field_discovery_prompt or DISCOVERY_FORM
            if JUDGE in metrics.methods():
                prompt = self._llms.prompt(reported.llm_name, [single, discovery])
        scorer = ReportEvaluator(
            metrics,
            store=self._store(config.object_store),
            report_url_pattern=config.report_url_pattern,
            reference_base_dir=_base(self._file, config),
            judge=judge,
            evaluation_method_id=config.evaluation_method_id,
            include_vlm_output=config.include_vlm_output,
            vlm_related_fields=config.vlm_related_fields,
            single_field_comparison_prompt=reported and reported.single_field_comparison_prompt,
            multi_field_discovery_prompt=reported and reported.multi_field_discovery_prompt,
            compat=self._compat,
        )
        tree = metrics.root.model_dump(mode="json", exclude_defaults=True)
        retries = 0 if reported is None else reported.max_retries
        return self._made(name, scorer, config, prompt, retries, metrics={metrics.root_key: tree})

    def _store(self, name: str) -> FolderStore:
        config = self._file.object_stores.get(name)
        if config is not None and config.path is None:
            raise ConfigError(
                f"object_stores.{name}: reports are read from a folder; expected {name}: "
                "{_type: folder, path: DIR}, where the agent leaves its reports"
            )
        return FolderStore(self._file.beside(name if config is None else config.path or ""))


def _base(file: EvalFile, config: ReportConfig) -> Path:
    """Give the folder that paths of references start from."""
    if config.reference_base_dir is not None:
        return file.beside(config.reference_base_dir)
    dataset = file.general.dataset.file_path
    return file.beside(dataset).parent if dataset else file.path.parent


def reference_of(file: EvalFile, item: EvalItem) -> JsonValue:
    """Read what the report of an item should say; None where it is not there, or there is none."""
    methods = item.entry.get(METHODS_KEY)
    for config in file.evaluators.values():
        if not isinstance(config, ReportConfig) or not isinstance(methods, list):
            continue
        path = _base(file, config) / str(item.ground_truth)
        with suppress(FileFormatError, OSError):  # its evaluator says what is wrong
            if config.evaluation_method_id in methods and path.is_file():
                return read_document(path).value
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scoring:
    """Scores records by an evaluator, and gives the cases its verdicts."""

    name: str
    scorer: ItemEvaluator
    cases: Cases

    async def asking(self, row: Row) -> Mapping[str, JsonValue]:
        """Score the record of a turn.

        Returns:
            The score, and why it is this one; no score of a row that is not for the evaluator.

        Raises:
            TaskFault: There is no score.
        """
        uid, item = self.cases.read(row)
        found = await self.scorer.judged(item)
        self.cases.judged[self.name, uid] = found
        if found.score is None and not found.is_skipped:
            raise TaskFault(found.reason or Reason.TYPE, found.error)
        reported = found.reasoning
        why = reported.get("reasoning") if isinstance(reported, dict) else reported
        return {"score": found.score, "reason": found.error or why}

    def at_once(self, row: Row) -> Mapping[str, JsonValue]:
        """Score the record of a turn where no judge is called."""
        return at_once(self.asking(row))
