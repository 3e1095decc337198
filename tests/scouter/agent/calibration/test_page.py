"""The page on calibration: its labels can be read, its commands and options are those there are."""

import re
from pathlib import Path
from typing import get_args

import pytest

from scouter.agent.calibration.labels import Label, LabelOrder, read_labels
from scouter.cli.app import main

PAGE = (Path(__file__).parents[4] / "docs" / "calibration.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("language", "name"), [("json", "labels.jsonl"), ("csv", "labels.csv")])
def test_the_labels_can_be_read(tmp_path: Path, language: str, name: str) -> None:
    (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / name).write_text(block, encoding="utf-8")
    found = read_labels(tmp_path / name)

    assert found.problems == ()
    assert [label.rater for _, label in found.labels] == ["ann"] * len(found.labels)
    assert found.labels


def test_every_field_is_described() -> None:
    begins = r"^\| (?:field|value of `order`) \|.*$|^In place of"
    _, table, choices, _ = re.split(begins, PAGE, flags=re.MULTILINE)
    for rows, wanted in (
        (table, set(Label.model_fields)),
        (choices, set(get_args(LabelOrder))),
    ):
        cells = "".join(re.findall(r"^\| (`.*?) \|", rows, re.MULTILINE))
        assert set(re.findall(r"`(\w+)`", cells)) == wanted


def test_every_option_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command in (
        ("judge", "sample"),
        ("judge", "calibrate"),
        ("judge", "correct"),
        ("eval",),
    ):
        monkeypatch.setattr("sys.argv", ["scouter", *command, "--help"])
        with pytest.raises(SystemExit):
            main()
    shown = capsys.readouterr().out
    for option in set(re.findall(r"--[a-z][a-z-]+", PAGE)) - {"--scouter-calibration"}:
        assert option in shown, option


def test_the_diagnosis_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    example, printed = re.findall(r"```(?:python|text)\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/calibration.md", "exec"), {})  # noqa: S102 our own page
    assert capsys.readouterr().out == printed
