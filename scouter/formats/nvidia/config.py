"""The config file of an agent, as far as it tells how the agent is evaluated; its variables."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from scouter.errors import ConfigError
from scouter.evaluate.engine.checks import GROUP, check_names
from scouter.evaluate.files.read import Document, read_document
from scouter.evaluate.report.field_metrics import Compat

_VARIABLE: Final = re.compile(r"([A-Za-z_]\w*)(?:(:?)-(.*))?", re.DOTALL)
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_UNUSED: Final = "api_key"
"""The field that may name a secret; it is never sent, so its variable need not be there."""


def replaced(value: JsonValue, environ: Mapping[str, str]) -> JsonValue:
    """Replace the variables in all texts of a value, as NeMo Agent Toolkit does.

    `${VAR:-default}` is the default where the variable is not set or empty, `${VAR-default}` where
    it is not set; a default may have variables, too. Other texts with a `$` stay as they are.

    Args:
        value: Part of a file.
        environ: The variables.

    Raises:
        ConfigError: A variable is not set and has no default, or its name is that of a secret: a
            file that somebody else wrote sends no key anywhere.
    """
    if isinstance(value, str):
        return _replaced(value, environ)
    if isinstance(value, dict):
        return {
            key: each if key == _UNUSED else replaced(each, environ) for key, each in value.items()
        }
    if isinstance(value, list):
        return [replaced(each, environ) for each in value]
    return value


def _replaced(text: str, environ: Mapping[str, str]) -> str:
    done, at = "", 0
    while (start := text.find("${", at)) >= 0:
        end = _end(text, start)
        found = _VARIABLE.fullmatch(text, start + 2, max(start + 2, end - 1))
        if found is None:
            done, at = done + text[at : start + 2], start + 2
            continue
        name, colon, default = found.groups()
        if _SECRET.search(name) and name in environ:
            raise ConfigError(
                f"${{{name}}}: the variable looks like a secret, and a config file sends none; "
                "write the value into the file if it is not one"
            )
        value = environ.get(name)
        if value is None or (colon and not value):
            if default is None:
                raise ConfigError(f"the variable {name} is not set; set it: export {name}=…")
            value = _replaced(default, environ)
        done, at = done + text[at:start] + value, end
    return done + text[at:]


def _end(text: str, start: int) -> int:
    """The place behind the brace that closes the one at `start`; 0 without one."""
    depth = 0
    for found in re.compile(r"\$\{|\}").finditer(text, start):
        depth += 1 if found[0] == "${" else -1
        if not depth:
            return found.end()
    return 0


M = TypeVar("M", bound=BaseModel)

OUTPUT_DIR: Final = "./.tmp/nat/examples/default/"
"""Folder of the results if the file names none."""
_FILE_NAME: Final = re.compile(r"[^\\/:*?\"<>|\x00-\x1f]{1,50}")
_READ: Final = frozenset({"eval", "llms", "object_stores"})

_QA: Final = "customized_qa_evaluator"
_INSTEAD: Final = {
    "ragas": f"{_QA}, or --profile faithfulness and relevance",
    "ragas AnswerAccuracy": _QA,
    "ragas ContextRelevance": "an LLMJudge task of your own in a --profile",
    "ragas ResponseGroundedness": "--profile faithfulness",
    "tunable_rag_evaluator": _QA,
    "trajectory": "customized_trajectory_evaluator",
}
"""By the toolkit's own evaluators, and their metrics, what here judges the same."""


class _User(BaseModel):
    """A part that its user writes: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Structure(_User):
    """Names of the columns in a dataset."""

    disable: bool = False
    question_key: str = "question"
    answer_key: str = "answer"
    generated_answer_key: str = "generated_answer"
    trajectory_key: str = "intermediate_steps"
    expected_trajectory_key: str = "expected_intermediate_steps"


class FilterEntry(_User):
    """Patterns as of file names, by column; a value has to match one of its column's."""

    field: dict[str, list[str | int | float | bool]] = Field(
        default_factory=dict[str, list[str | int | float | bool]]
    )


class Filter(_User):
    """Filter of rows: `allowlist` says which may pass, and `denylist` then removes some."""

    allowlist: FilterEntry | None = None
    denylist: FilterEntry | None = None


class DatasetConfig(_User):
    """A dataset file."""

    type: Literal["json", "jsonl", "csv", "parquet", "xls", "custom"] = Field(alias="_type")
    file_path: str | None = None
    id_key: str = "id"
    structure: Structure = Structure()
    filter: Filter = Filter()
    remote_file_path: str | None = None
    s3: JsonValue = None
    function: str | None = None
    kwargs: JsonValue = None


class _Evaluator(_User):
    evaluation_method_id: str
    llm_judge_reasoning: bool = True


class JudgeConfig(_User):
    """Model and prompts that score the fields of a report."""

    llm_name: str
    max_retries: int = Field(default=2, ge=0, le=100)
    llm_judge_reasoning: bool = True
    single_field_comparison_prompt: str | None = None
    multi_field_discovery_prompt: str | None = None


class MetricConfigs(_User):
    """Settings of single metrics."""

    llm_judge: JudgeConfig | None = None


class ReportConfig(_Evaluator):
    """A `report_evaluator`."""

    type: Literal["report_evaluator"] = Field(alias="_type")
    evaluation_method_id: str = "report"
    eval_metrics_config_path: str
    reference_base_dir: str | None = None
    """Folder that paths of references start from; the dataset's folder if not given."""
    object_store: str
    report_url_pattern: str
    include_vlm_output: bool = True
    vlm_related_fields: list[str] | None = None
    metric_configs: MetricConfigs = MetricConfigs()


class QAConfig(_Evaluator):
    """A `customized_qa_evaluator`."""

    type: Literal["customized_qa_evaluator"] = Field(alias="_type")
    evaluation_method_id: str = "qa"
    llm_name: str
    max_retries: int = Field(default=2, ge=0, le=100)
    custom_prompt_template: str | None = None


class TrajectoryConfig(_Evaluator):
    """A `customized_trajectory_evaluator`."""

    type: Literal["customized_trajectory_evaluator"] = Field(alias="_type")
    evaluation_method_id: str = "trajectory"
    llm_name: str
    max_retries: int = Field(default=2, ge=0, le=100)
    track_agent_selected_tools_only: bool = True
    custom_prompt_template_with_reference: str | None = None
    custom_prompt_template_without_reference: str | None = None
    tool_schemas: str | None = None
    """File with the definitions of the agent's tools; ours, as no workflow is here to tell them."""


class CheckConfig(_User):
    """An evaluator of the user's own: a check in Python, called as the `_type` of the file."""

    type: str = Field(alias="_type")


EvaluatorConfig: TypeAlias = ReportConfig | QAConfig | TrajectoryConfig | CheckConfig
EVALUATORS: Final[Mapping[str, type[EvaluatorConfig]]] = {
    "report_evaluator": ReportConfig,
    "customized_qa_evaluator": QAConfig,
    "customized_trajectory_evaluator": TrajectoryConfig,
}


class LlmConfig(BaseModel):
    """One of the `llms`; fields that no judge uses are left unread."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    type: str = Field(alias="_type")
    model_name: str = Field(min_length=1)
    base_url: str | None = None
    api_key: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None


class StoreConfig(BaseModel):
    """One of the `object_stores`; a folder is the one that can be read."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    type: str = Field(alias="_type", default="folder")
    path: str | None = None


class _Output(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    dir: str | None = None
    cleanup: bool = False


class _General(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    output_dir: str = OUTPUT_DIR
    output: _Output | None = None
    max_concurrency: int = Field(default=8, ge=1, le=10_000)
    dataset: DatasetConfig
    compat: Compat = "sound"
    """Ours: whose numbers are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalFile:
    """A config file, with notes on its unused parts."""

    path: Path
    general: _General
    evaluators: Mapping[str, EvaluatorConfig]
    llms: Mapping[str, LlmConfig]
    object_stores: Mapping[str, StoreConfig]
    left_out: tuple[str, ...] = ()
    """Evaluators that are not known here, in words."""
    notes: tuple[str, ...] = field(default=())
    """Notes for the user on keys that are not read, or that have another effect here."""

    @property
    def output_dir(self) -> Path:
        """The folder of the results."""
        output = self.general.output
        named = output.dir if output is not None and output.dir else self.general.output_dir
        return Path(named)

    def beside(self, path: str) -> Path:
        """A path that the file names: as it is where that is there, else beside the file."""
        own = Path(path)
        return own if own.is_absolute() or own.exists() else self.path.parent / own


def read_config(path: str | Path, environ: Mapping[str, str] | None = None) -> EvalFile:
    """Read the part `eval` of a config file, and what it names of `llms` and `object_stores`.

    Args:
        path: The file.
        environ: Variables that stand in the file; by default those of the process.

    Raises:
        FileFormatError: Names file, line and field.
    """
    document = read_document(path)
    environ = os.environ if environ is None else environ
    reported = document.value if isinstance(document.value, dict) else {}
    section = reported.get("eval")
    if not isinstance(section, dict):
        raise document.error("there is no section 'eval'", expected="eval: {general, evaluators}")
    general = _model(document, environ, _General, section.get("general"), ("eval", "general"))
    notes = [*_ignored(reported, section, general)]
    left_out: list[str] = []
    evaluators: dict[str, EvaluatorConfig] = {}
    for name, value in _objects(document, section.get("evaluators"), ("eval", "evaluators")):
        if not _FILE_NAME.fullmatch(name) or name.lower() == "workflow":
            raise document.error(
                f"evaluator {name!r}: no file can be called so, or another one is",
                ("eval", "evaluators", name),
                "letters, digits, - and _, as its results are written to NAME_output.json",
            )
        kind = value.get("_type") if isinstance(value, dict) else None
        model = EVALUATORS.get(str(kind))
        if model is None and kind in check_names():
            model = CheckConfig
        if model is None:
            instead = _instead(value if isinstance(value, dict) else {})
            left_out.append(f"evaluator {name!r} (_type: {kind}{instead})")
            continue
        evaluators[name] = _model(document, environ, model, value, ("eval", "evaluators", name))
    return EvalFile(
        path=Path(path),
        general=general,
        evaluators=evaluators,
        llms=_models(document, environ, LlmConfig, "llms", _llms_of(document, evaluators)),
        object_stores=_models(
            document,
            environ,
            StoreConfig,
            "object_stores",
            {each.object_store for each in evaluators.values() if isinstance(each, ReportConfig)},
        ),
        left_out=tuple(left_out),
        notes=tuple(notes),
    )


def _instead(evaluator: Mapping[str, JsonValue]) -> str:
    """Say what to use in the place of an evaluator that is not ours."""
    kind, metric = str(evaluator.get("_type")), str(evaluator.get("metric"))
    found = _INSTEAD.get(f"{kind} {metric}") or _INSTEAD.get(kind)
    return f"; use {found or f'a check in Python of that name, of the group {GROUP}'}"


def _ignored(
    given: Mapping[str, JsonValue], section: Mapping[str, JsonValue], general: _General
) -> list[str]:
    """Say what is in the file and not used."""
    notes: list[str] = []
    if others := sorted(set(given) - _READ):
        blocks = ", ".join(f"{name}:" for name in others)
        notes.append(f"not read: {blocks} (the agent is the one that --agent names)")
    if more := sorted({*(general.model_extra or ()), *section} - {"general", "evaluators"}):
        notes.append(f"not used in eval: {', '.join(more)}")
    if general.output is not None and general.output.cleanup:
        notes.append("eval.general.output.cleanup is not heeded: no file of yours is deleted")
    return notes


def _objects(
    document: Document, value: JsonValue, loc: tuple[str, ...]
) -> list[tuple[str, JsonValue]]:
    if value is None:
        return []
    if not isinstance(value, dict):
        raise document.error("this is no object", loc, "names with their settings")
    return list(value.items())


def _llms_of(document: Document, evaluators: Mapping[str, EvaluatorConfig]) -> set[str]:
    """The names of the models that evaluators ask; the agent's own may be of any kind."""
    reported = document.value if isinstance(document.value, dict) else {}
    known = dict(_objects(document, reported.get("llms"), ("llms",)))
    found: set[str] = set()
    for name, each in evaluators.items():
        if isinstance(each, CheckConfig):
            continue
        judge = each.metric_configs.llm_judge if isinstance(each, ReportConfig) else each
        if judge is None:
            continue
        if judge.llm_name not in known:
            raise document.error(
                f"evaluator {name!r}: llm_name {judge.llm_name!r}: there is no such entry in llms: "
                f"({', '.join(known) or 'none'})",
                ("eval", "evaluators", name),
            )
        found.add(judge.llm_name)
    return found


def _models(
    document: Document, environ: Mapping[str, str], model: type[M], section: str, used: set[str]
) -> dict[str, M]:
    reported = document.value if isinstance(document.value, dict) else {}
    found = _objects(document, reported.get(section), (section,))
    return {
        name: _model(document, environ, model, value, (section, name))
        for name, value in found
        if name in used
    }


def _model(
    document: Document,
    environ: Mapping[str, str],
    model: type[M],
    value: JsonValue,
    loc: tuple[str, ...],
) -> M:
    """Read an object; a variable of a field that nothing here reads does not have to be set."""
    read = {*model.model_fields, *(each.alias for each in model.model_fields.values())}
    try:
        if isinstance(value, dict):
            value = {k: replaced(each, environ) if k in read else each for k, each in value.items()}
        return model.model_validate(value)
    except (ValidationError, ConfigError) as error:
        raise document.wrap(error, loc, model) from error
