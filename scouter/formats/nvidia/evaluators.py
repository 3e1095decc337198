"""The evaluators that a config file asks for."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeAlias

from scouter.errors import ConfigError
from scouter.evaluate.files.read import read_document
from scouter.evaluate.judge.asked_judge import AskedJudge
from scouter.evaluate.judge.port import Judge
from scouter.evaluate.report.item import EvalItem
from scouter.evaluate.report.metrics_config import MetricsConfig
from scouter.evaluate.report.qa_evaluator import QAEvaluator
from scouter.evaluate.report.report_evaluator import ReportEvaluator
from scouter.evaluate.report.rules import Compat
from scouter.evaluate.report.store import FolderStore
from scouter.evaluate.report.trajectory_evaluator import TrajectoryEvaluator
from scouter.evaluate.report.verdicts import EvaluatorOutput, ItemVerdict
from scouter.formats.nvidia.config import EvalFile, QAConfig, ReportConfig, TrajectoryConfig
from scouter.formats.nvidia.llms import NamedLlms

Told: TypeAlias = Callable[[ItemVerdict], None]


class Evaluator(Protocol):
    """Method that all evaluators have."""

    def evaluate_async(
        self, items: Sequence[EvalItem], on_verdict: Told | None = None
    ) -> Awaitable[EvaluatorOutput]:
        """Evaluate items, and tell each verdict as it comes."""
        ...


class Evaluators:
    """Makes the evaluators of one file.

    Args:
        file: The config.
        llms: Its models.
        judge: The judge.
        slots: Bounds the questions at a time, of all evaluators together.
    """

    def __init__(
        self,
        file: EvalFile,
        llms: NamedLlms,
        judge: Judge,
        slots: AbstractAsyncContextManager[object],
    ) -> None:
        self._file, self._llms, self._judge, self._slots = file, llms, judge, slots
        self._most = file.general.max_concurrency
        self._compat: Compat = file.general.compat

    def make(self) -> Mapping[str, Evaluator]:
        """Make all, by name.

        Raises:
            ConfigError: One names a file, a model or a store that is not there.
        """
        made: dict[str, Evaluator] = {}
        for name, config in self._file.evaluators.items():
            try:
                made[name] = self._one(config)
            except ConfigError as error:
                raise ConfigError(f"evaluator {name!r}: {error}") from error
        return made

    def _one(self, config: ReportConfig | QAConfig | TrajectoryConfig) -> Evaluator:
        match config:
            case ReportConfig():
                return self._report(config)
            case QAConfig():
                return QAEvaluator(
                    self._asked(config.llm_name, config.max_retries),
                    evaluation_method_id=config.evaluation_method_id,
                    custom_prompt_template=config.custom_prompt_template,
                    llm_judge_reasoning=config.llm_judge_reasoning,
                    compat=self._compat,
                    max_concurrency=self._most,
                )
            case TrajectoryConfig():
                return self._trajectory(config)

    def _asked(self, name: str, max_retries: int) -> AskedJudge:
        return self._llms.asked(name, self._judge, max_retries, self._slots)

    def _trajectory(self, config: TrajectoryConfig) -> TrajectoryEvaluator:
        schemas = None
        if config.tool_schemas is not None:
            document = read_document(self._file.beside(config.tool_schemas))
            schemas = document.value if isinstance(document.value, list) else [document.value]
        return TrajectoryEvaluator(
            self._asked(config.llm_name, config.max_retries),
            evaluation_method_id=config.evaluation_method_id,
            track_agent_selected_tools_only=config.track_agent_selected_tools_only,
            custom_prompt_template_with_reference=config.custom_prompt_template_with_reference,
            custom_prompt_template_without_reference=config.custom_prompt_template_without_reference,
            tool_schemas=schemas,
            llm_judge_reasoning=config.llm_judge_reasoning,
            compat=self._compat,
            max_concurrency=self._most,
        )

    def _report(self, config: ReportConfig) -> ReportEvaluator:
        judge, told = None, config.metric_configs.llm_judge
        if told is not None:
            judge = self._asked(told.llm_name, told.max_retries)
        path = self._file.beside(config.eval_metrics_config_path)
        return ReportEvaluator(
            MetricsConfig.from_file(path, self._compat),
            store=self._store(config.object_store),
            report_url_pattern=config.report_url_pattern,
            reference_base_dir=self._base(config),
            judge=judge,
            evaluation_method_id=config.evaluation_method_id,
            include_vlm_output=config.include_vlm_output,
            vlm_related_fields=config.vlm_related_fields,
            single_field_comparison_prompt=told and told.single_field_comparison_prompt,
            multi_field_discovery_prompt=told and told.multi_field_discovery_prompt,
            compat=self._compat,
            max_concurrency=self._most,
        )

    def _base(self, config: ReportConfig) -> Path:
        """Give the folder that paths of references start from."""
        if config.reference_base_dir is not None:
            return self._file.beside(config.reference_base_dir)
        dataset = self._file.general.dataset.file_path
        return self._file.beside(dataset).parent if dataset else self._file.path.parent

    def _store(self, name: str) -> FolderStore:
        config = self._file.object_stores.get(name)
        if config is not None and config.path is None:
            raise ConfigError(
                f"object_stores.{name}: reports are read from a folder; expected {name}: "
                "{_type: folder, path: DIR}, where the agent leaves its reports"
            )
        return FolderStore(self._file.beside(name if config is None else config.path or ""))
