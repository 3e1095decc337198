"""The configuration of an evaluation: what of it Scouter follows, and what it only notes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from scouter.evaluate.files.read import Document
from scouter.formats.unread import ASKING
from scouter.model.visible import did_you_mean

MAX_USER_TURNS: Final = 25

_ELSEWHERE: Final = {
    "auth_config": "Scouter asks the agent in this process (--agent), and needs no tenant",
    "llm_user_config": "the user is played by --simulated-user",
    "skip_available_results": "--resume FILE keeps what is done",
    "enable_manual_user_input": "the user is played by --simulated-user",
    "metrics": "all measures are taken",
    "trace_sources": "recorded traces are judged by scouter eval --traces",
    "data_annotation_run": "datasets are not made here",
    "langfuse_enabled": "results are read from files, and by OTLP",
}
"""Keys that ask for something that is had in another way."""
_SILENT: Final = frozenset(
    {"enable_verbose_logging", "max_interaction_steps", "is_strict", "error_keywords",
     "text_match_config", "skip_legacy_evaluation", "wxo_lite_version", "operator_configs",
     "evaluation_model"}
)  # fmt: skip
"""Keys that ask for nothing that Scouter could do otherwise."""


class Provider(BaseModel):
    """Provider and models of the judge and the embedder."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    provider: str = ""
    model_id: str = ""
    embedding_model_id: str = ""


class Evaluation(BaseModel):
    """Settings of the evaluation."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    provider_config: Provider | None = None


class WatsonxConfig(BaseModel):
    """The keys of a `config.yml` that Scouter follows; under their documented names."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    test_paths: list[str] = Field(min_length=1)
    output_dir: str | None = None
    tags: list[str] = Field(default_factory=list)
    enable_recursive_search: bool = False
    num_workers: int = Field(default=1, ge=1)
    n_runs: int = Field(default=1, ge=1)
    max_user_turns: int = Field(default=MAX_USER_TURNS, ge=1, le=10_000)
    similarity_threshold: float = Field(default=0.8, ge=0, le=1)
    enable_fuzzy_matching: bool = True
    evaluation_config: Evaluation | None = None
    provider_config: Provider | None = None

    @property
    def judge(self) -> Provider | None:
        """The model that judges, wherever the file names it."""
        inner = self.evaluation_config.provider_config if self.evaluation_config else None
        return inner or self.provider_config


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """A configuration that was read."""

    config: WatsonxConfig
    notes: tuple[str, ...] = field(default=())
    """Keys that have no effect here, and what to do instead."""
    left_out: tuple[str, ...] = ()
    """Keys that ask for checks which nothing here makes."""


def is_config(value: JsonValue) -> bool:
    """Tell a configuration from a dataset."""
    return isinstance(value, dict) and "test_paths" in value and "goal_details" not in value


def config_of_document(document: Document) -> ReadConfig:
    """Read a configuration.

    Paths in it are found from the working folder, as by the original.

    Raises:
        FileFormatError: Names file, line and field; a key that is nearly one that is known, too.
    """
    value = cast("dict[str, Any]", document.value)
    known = (*WatsonxConfig.model_fields, *_ELSEWHERE, *_SILENT, *ASKING)
    notes: list[str] = []
    left_out: list[str] = []
    for name in value.keys() - {*WatsonxConfig.model_fields} - _SILENT:
        if name in _ELSEWHERE:
            notes.append(f"{name} has no effect here: {_ELSEWHERE[name]}")
            continue
        if name in ASKING:
            left_out += [f"{name} of {Path(document.path).name}"] if value[name] else []
            continue
        hint = did_you_mean(name, known)
        if hint:
            raise document.error(f"unknown field; {hint}", (name,))
        notes.append(f"{name} is not known and has no effect")
    paths = value.get("test_paths")
    if isinstance(paths, str):
        value = {**value, "test_paths": paths.split(",")}
    try:
        config = WatsonxConfig.model_validate(value)
    except ValueError as error:
        raise document.wrap(error, model=WatsonxConfig) from error
    return ReadConfig(config=config, notes=tuple(sorted(notes)), left_out=tuple(sorted(left_out)))


def config_of_paths(path: Path) -> ReadConfig:
    """The configuration of a command that names a dataset, or a folder of them."""
    return ReadConfig(config=WatsonxConfig(test_paths=[str(path)]))
