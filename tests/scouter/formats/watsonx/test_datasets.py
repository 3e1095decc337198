"""Ground-truth files: found as the original finds them, and refused with the place of the fault."""

import json
from pathlib import Path

import pytest

from scouter.errors import ConfigError, FileFormatError
from scouter.formats.watsonx.recorded import find_datasets, read_cases, read_dataset
from tests.support.journeys import hr
from tests.support.watsonx_vectors import vectors

GOOD = """\
{
  "story": "You want a room.",
  "goals": {
    "find": ["book"],
    "book": []
  },
  "goal_details": [
    {"type": "tool_call", "name": "find", "tool_name": "find"},
    {"type": "tool_call", "name": "book", "tool_name": "book"}
  ]
}
"""


@pytest.mark.parametrize(
    ("old", "new", "field", "words"),
    [
        ('"book": []', '"book": ["find"]', "goals.find", "the goals go in a circle"),
        ('"name": "book", ', '"name": "find", ', "goals.find[0]", "goal_details has no 'book'"),
        (', "tool_name": "book"', "", "goal_details[1].tool_name", "the field is missing"),
        ('["book"]', '["boook"]', "goals.find[0]", "did you mean 'book'"),
        ('{"type": "tool_call", "name": "book"', '{"type": "tool_response", "name": "book"',
         "goal_details[1].type", "no message can meet a goal of the type 'tool_response'"),
        ("You want a room.", "", "story", "at least one letter"),
        ('"story":', '"story": "x",\\n  "story":', None, "stands twice"),
    ],
)  # fmt: skip
def test_faults_have_their_place(
    tmp_path: Path, old: str, new: str, field: str | None, words: str
) -> None:
    file = tmp_path / "room.json"
    file.write_text(GOOD.replace(old, new.replace("\\n", "\n")), encoding="utf-8")
    with pytest.raises(FileFormatError, match=words) as caught:
        read_dataset(file)
    assert (caught.value.field, caught.value.path) == (field, str(file))


def test_a_name_that_stands_twice_and_the_other_faults(tmp_path: Path) -> None:
    file = tmp_path / "room.json"
    twice = GOOD.replace('"tool_name": "book"}', '"tool_name": "book"},\n    {"type": "tool_call", '
                         '"name": "find"}')  # fmt: skip
    file.write_text(twice, encoding="utf-8")
    with pytest.raises(FileFormatError, match="the field is missing"):
        read_dataset(file)
    file.write_text(twice.replace('"name": "find"}', '"name": "find", "tool_name": "x"}'))
    with pytest.raises(FileFormatError, match="2 goals are called 'find'") as caught:
        read_dataset(file)
    assert caught.value.field == "goal_details[2].name"
    both = GOOD.replace(', "tool_name": "book"', "").replace(', "tool_name": "find"', "")
    file.write_text(both, encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"more faults at goal_details\[1\]") as caught:
        read_dataset(file)
    assert caught.value.field == "goal_details[0].tool_name"


def test_yaml_has_lines_too(tmp_path: Path) -> None:
    file = tmp_path / "room.yaml"
    file.write_text(
        "story: You want a room.\ngoals:\n  find: [find]\ngoal_details:\n"
        "  - {type: tool_call, name: find, tool_name: find}\n",
        encoding="utf-8",
    )
    with pytest.raises(FileFormatError, match="come first: find → find") as caught:
        read_dataset(file)
    assert caught.value.line == 3


def test_files_are_found_as_the_original_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = vectors()["unit_vectors_1.6.9"]["discover_tests"]
    for number, case in enumerate(cases):
        folder = tmp_path / str(number)
        for name in case["tree"]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("{}", encoding="utf-8")
        monkeypatch.chdir(folder)
        found, _ = find_datasets(case["paths"], is_recursive=case["recursive"])
        assert [str(file) for file in found] == case["result"], case
    with capsys.disabled():
        print(f"\nwatsonx discover_tests: {len(cases)}")  # noqa: T201 requested


def test_what_is_left_out_is_noted(tmp_path: Path) -> None:
    for name in ("a.json", "more/a.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}", encoding="utf-8")
    found, notes = find_datasets([tmp_path, tmp_path / "none"], is_recursive=True)
    assert found == [tmp_path / "a.json"]
    assert "left out" in notes[0]
    assert "there is no dataset" in notes[1]


def test_cases_by_name_and_tag(tmp_path: Path) -> None:
    for name, tags in (("a", ["smoke"]), ("b", []), ("c", ["slow"])):
        (tmp_path / f"{name}.json").write_text(json.dumps(hr(tags=tags)), encoding="utf-8")
    files, _ = find_datasets([tmp_path])
    assert [case.name for case in read_cases(files)] == ["a", "b", "c"]
    assert [case.name for case in read_cases(files, ["smoke", "x"])] == ["a"]
    with pytest.raises(ConfigError, match=r"no dataset has one of the tags \['x'\]"):
        read_cases(files, ["x"])
    (tmp_path / "d.json").write_text(json.dumps(hr(dataset_name="a")), encoding="utf-8")
    with pytest.raises(ConfigError, match="both called 'a'"):
        read_cases(find_datasets([tmp_path])[0])
