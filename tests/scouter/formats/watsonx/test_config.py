"""Configurations: keys that are followed, keys that are noted, keys that are refused."""

from pathlib import Path

import pytest

from scouter.errors import FileFormatError
from scouter.evaluate.files.read import read_document
from scouter.formats.watsonx.config import ReadConfig, config_of_document, is_config

FULL = """\
test_paths: benchmarks/,more/*.json
output_dir: out
auth_config:
  url: http://localhost:4321
  token: secret
n_runs: 2
max_user_turns: 7
similarity_threshold: 0.75
enable_fuzzy_matching: false
enable_verbose_logging: true
something_own: 1
evaluation_config:
  provider_config: {provider: openai, model_id: small-1}
"""


def read(tmp_path: Path, text: str) -> ReadConfig:
    file = tmp_path / "config.yml"
    file.write_text(text, encoding="utf-8")
    document = read_document(file)
    assert is_config(document.value)
    return config_of_document(document)


def test_a_configuration(tmp_path: Path) -> None:
    found = read(tmp_path, FULL)
    config = found.config
    assert config.test_paths == ["benchmarks/", "more/*.json"]
    assert (config.n_runs, config.max_user_turns, config.num_workers) == (2, 7, 1)
    assert (config.similarity_threshold, config.enable_fuzzy_matching) == (0.75, False)
    assert config.judge is not None
    assert (config.judge.provider, config.judge.model_id) == ("openai", "small-1")
    first, second = found.notes
    assert first.startswith("auth_config has no effect here")
    assert "secret" not in first
    assert second == "something_own is not known and has no effect"


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        (3, "test_paths: [a]\noutput_dir: x\nmax_user_turn: 3\n", "did you mean 'max_user_turns'"),
        (2, "test_paths: [a]\nsimilarity_threshold: 80\n", "less than or equal to 1"),
        (2, "test_paths: [a]\nn_runs: many\n", "n_runs"),
        (1, "test_paths: []\n", "it is empty"),
    ],
)
def test_faults_have_their_line(tmp_path: Path, line: int, text: str, words: str) -> None:
    with pytest.raises(FileFormatError, match=words) as caught:
        read(tmp_path, text)
    assert caught.value.line == line


@pytest.mark.parametrize("name", ["custom_metrics_config", "extractors_config", "rubrics"])
def test_checks_of_another_kind_are_named(tmp_path: Path, name: str) -> None:
    """Kind: what a foreign file asks for vanishes. An empty key asks for nothing."""
    path = tmp_path / "config.yml"
    path.write_text(f"test_paths: [x]\n{name}: {{paths: [m.py]}}\n", encoding="utf-8")
    assert config_of_document(read_document(path)).left_out == (f"{name} of config.yml",)
    path.write_text(f"test_paths: [x]\n{name}:\n", encoding="utf-8")
    assert config_of_document(read_document(path)).left_out == ()
