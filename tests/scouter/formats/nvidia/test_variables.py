"""Variables in config files of NeMo Agent Toolkit."""

from pathlib import Path

import pytest

from scouter.errors import ConfigError, FileFormatError
from scouter.formats.nvidia import read_config
from scouter.formats.nvidia.config import replaced

_ENVIRON = {"DIR": "data", "EMPTY": "", "NVIDIA_API_KEY": "nvapi-1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${DIR}/a.json", "data/a.json"),
        ("${DIR}/${DIR}", "data/data"),
        ("${NONE:-other}", "other"),
        ("${NONE-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY-other}", ""),
        ("${EMPTY}", ""),
        ("${NONE:-}", ""),
        ("${NONE:-${DIR}/b}/c", "data/b/c"),
        ("${NONE:-${NEITHER:-{x}}}", "{x}"),
        ("$DIR costs $5 or ${5}", "$DIR costs $5 or ${5}"),
        ("no end: ${DIR", "no end: ${DIR"),
        ("http://${HOST:-localhost}:${PORT:-8000}/v1", "http://localhost:8000/v1"),
    ],
)
def test_a_variable_is_replaced_as_a_shell_does(text: str, expected: str) -> None:
    assert replaced({"path": [text], "n": 1}, _ENVIRON) == {"path": [expected], "n": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NONE}", "NONE is not set"),
        ("${NONE:-${NEITHER}}", "NEITHER is not set"),
        ("https://elsewhere/?${NVIDIA_API_KEY}", "looks like a secret"),
    ],
)
def test_what_is_missing_or_secret_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replaced(text, _ENVIRON)


def test_an_api_key_is_left_as_it_is() -> None:
    """It is not used, so its variable need not be set."""
    assert replaced({"api_key": "${NO_KEY}"}, {}) == {"api_key": "${NO_KEY}"}


_CONFIG = """
llms:
  agent: {_type: azure_openai, azure_endpoint: "${NOBODY}"}
  eval: {_type: nim, model_name: "${EVAL_MODEL}", base_url: "${EVAL_URL}"}
object_stores:
  uploads: {_type: s3, bucket: "${NOBODY}"}
eval:
  general:
    output_dir: "${OUT:-results}"
    max_concurrency: "${AT_ONCE:-3}"
    dataset: {_type: json, file_path: "${DATASET_DIR:-${EVAL_DIR}}/d.json"}
  evaluators:
    qa: {_type: customized_qa_evaluator, llm_name: eval}
"""


def test_only_what_an_evaluator_uses_is_read(tmp_path: Path) -> None:
    """The agent's own models may be of any kind, with variables that nobody has set."""
    (tmp_path / "config.yml").write_text(_CONFIG, encoding="utf-8")
    environ = {"EVAL_MODEL": "m", "EVAL_URL": "http://127.0.0.1:9/v1", "EVAL_DIR": "here"}
    file = read_config(tmp_path / "config.yml", environ)
    assert list(file.llms) == ["eval"]
    assert (file.llms["eval"].model_name, file.llms["eval"].base_url) == ("m", environ["EVAL_URL"])
    assert file.object_stores == {}
    assert file.general.dataset.file_path == "here/d.json"
    assert (file.general.output_dir, file.general.max_concurrency) == ("results", 3)


def test_a_variable_that_is_missing_is_named_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text(_CONFIG, encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"config\.yml.*llms\.eval.*EVAL_URL is not set") as e:
        read_config(path, {"EVAL_MODEL": "m", "EVAL_DIR": "here"})
    assert e.value.line == 4
