"""Scenario files: every documented shape, and one clear error for every mistake."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.errors import FileFormatError
from scouter.evaluate.scenario import EvalScenarios

TASK = {
    "task_type": "Assertion", "id": "says", "context_path": "response",
    "operator": "Contains", "expected_value": "Köln",
}  # fmt: skip


def read(folder: Path, name: str, content: str | bytes) -> EvalScenarios:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return EvalScenarios.from_path(path)


def test_bucketed_tasks_are_read(tmp_path: Path) -> None:
    """The original's dumps have lists by kind, without `task_type`, beside run results."""
    bare = {key: value for key, value in TASK.items() if key != "task_type"}
    dump: dict[str, object] = {
        "collection_id": "old",
        "scenarios": [
            {
                "id": "größe",
                "initial_query": "Wo liegt Köln? 日本",
                "tasks": {"assertion": [bare], "judge": [], "trace": [], "agent": []},
            }
        ],
        "dataset_results": {},
        "scenario_results": [],
        "metrics": None,
    }
    scenarios = read(tmp_path, "s.json", json.dumps(dump, ensure_ascii=False))
    assert scenarios.collection_id == "old"
    assert scenarios[0].id == "größe"
    assert scenarios[0].tasks[0].expected_value == "Köln"


def test_json_lines_skip_blank_lines_and_ignore_the_collection(tmp_path: Path) -> None:
    """A header line, a field inside a scenario and blank lines: two scenarios are left."""
    text = (
        '{"collection_id": "x"}\n\n{"initial_query": "ä", "collection_id": "x"}\r\n'
        '  \n{"initial_query": "b"}'
    )
    scenarios = read(tmp_path, "s.JSONL", text)
    assert [scenario.initial_query for scenario in scenarios] == ["ä", "b"]
    assert scenarios.collection_id != "x"


def test_yaml_words_stay_words(tmp_path: Path) -> None:
    """`NO` is a signal, not a boolean; dates and times are text, as they would be in JSON."""
    text = (
        "- initial_query: 2024-05-01\n  termination_signal: NO\n  id: 12:30\n"
        "  metadata: {1: yes, when: 2024-05-01, n: 0x10, f: 1e3, t: true, z: ~}\n"
    )
    [scenario] = read(tmp_path, "s.yml", text)
    assert (scenario.initial_query, scenario.termination_signal) == ("2024-05-01", "NO")
    assert scenario.id == "12:30"
    assert scenario.metadata == {
        "1": "yes", "when": "2024-05-01", "n": 16, "f": 1000.0, "t": True, "z": None,
    }  # fmt: skip


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    assert len(read(tmp_path, "s.json", b'\xef\xbb\xbf[{"initial_query": "q"}]')) == 1


MISTAKES = {
    # name: (file, content, line, field, words)
    "unsupported": ("s.csv", "x", None, None, "Unsupported extension '.csv'. Expected .jsonl"),
    "no extension": ("s", "x", None, None, "Cannot determine file extension for"),
    "empty json": ("s.json", " \n", None, None, "the file is empty"),
    "empty yaml": ("s.yaml", "# only a comment\n", None, None, "the file is empty"),
    "empty jsonl": ("s.jsonl", "\n\n", None, None, "the file is empty"),
    "not utf-8": ("s.json", b'[\n"\xff"]', 2, None, "byte 0xff is not UTF-8"),
    "json": ("s.json", '[\n {"id": }]', 2, None, "Expecting value (column 9)"),
    "json NaN": ("s.json", "[NaN]", None, None, "NaN is no JSON value"),
    "json key twice": ("s.json", '[{"id": "a", "id": "b"}]', None, None, "'id' stands twice"),
    "json too deep": ("s.json", "[" * 100_000, None, None, "nested too deeply"),
    "yaml": ("s.yaml", "a: 1\n  b: 2\n", 2, None, "mapping values are not allowed"),
    "yaml key twice": ("s.yaml", "- id: a\n  id: b\n", 2, None, "'id' stands twice"),
    "yaml tag": ("s.yaml", "- initial_query: !Q x\n", 1, None, "'!Q'"),
    "yaml too deep": ("s.yaml", "[" * 100_000, 1, None, "nested more than 200 levels"),
    "yaml loop": ("s.yaml", "- &a\n  metadata: *a\n", 1, None, "an alias contains itself"),
    "jsonl": ("s.jsonl", '{"initial_query": "q"}\n\n{oops}\n', 3, None, "Parse error on line 3: "),
    "no scenario": ("s.json", '[\n"q"]', None, "[0]", "a str is no scenario"),
    "no list": ("s.yaml", "scenarios: 3", 1, "scenarios", "no list of scenarios"),
    "none": ("s.yaml", "scenarios: []", 1, "scenarios", "there are no scenarios"),
    "no key": ("s.json", '{"scenario": []}', None, None, "no 'scenarios' among ['scenario']"),
    "unknown key": ("s.yaml", "scenarios: []\nnote: x\n", 2, "note", "unknown field"),
    "missing query": ("s.yaml", "- id: a\n- max_turns: 3\n  initial_query: q\n", 1,
                      "[0].initial_query", "the field is missing"),
    "unknown field": ("s.json", '[{"initial_query": "q",\n"maxturns": 3}]', None, "[0].maxturns",
                      "unknown field; expected 'max_turns', or another of id, initial_query"),
    "wrong type": ("s.yaml", "scenarios:\n- initial_query: q\n  max_turns: many\n", 3,
                   "scenarios[0].max_turns", "'many' does not fit; expected a valid integer"),
    "operator": ("s.yaml", "- initial_query: q\n  tasks:\n  - task_type: Assertion\n"
                 "    id: t\n    operator: Eq\n    expected_value: 1\n    context_path: a\n", 5,
                 "[0].tasks[0].operator", "no operator is named 'Eq'"),
    "task type": ("s.json", '[{"initial_query": "q", "tasks": [\n{"task_type": "X"}]}]', None,
                  "[0].tasks[0].task_type", "'X' does not fit"),
    "id twice": ("s.jsonl", '{"id": "é", "initial_query": "q"}\n{"id": "é", "initial_query": ""}',
                 2, "id", "the id 'é' is already used on line 1"),
    "id twice in a list": (
        "s.json", '[{"id": "a", "initial_query": "q"},\n{"id": "a", "initial_query": ""}]',
        None, "[1].id", "the id 'a' is already used at [0]"),
    "cycle": ("s.yaml", "- initial_query: q\n  id: s\n  tasks:\n  - {task_type: Assertion, id: t, "
              "depends_on: [t], operator: IsNull, context_path: a}\n", 4,
              "[0].tasks[0].depends_on", "scenario 's': task 't': depends_on names the task"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(tmp_path: Path, case: str) -> None:
    """One error that names file, field and, where it is known, line, and says what was expected."""
    name, content, line, field, words = MISTAKES[case]
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path, name, content)
    error = caught.value
    assert words in str(error)
    assert str(tmp_path / name) in str(error)
    assert (error.line, error.field) == (line, field)


def test_no_such_file(tmp_path: Path) -> None:
    """Also one of ours, with the path."""
    with pytest.raises(FileFormatError, match=r"s\.json: cannot read the file: No such file"):
        EvalScenarios.from_path(tmp_path / "s.json")


def test_aliases_that_explode_are_refused(tmp_path: Path) -> None:
    """Eight levels of ten aliases each would be a hundred million values."""
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for outer, inner in zip("bcdefgh", "abcdefg", strict=True):
        lines.append(f"{outer}: &{outer} [{', '.join([f'*{inner}'] * 10)}]")
    with pytest.raises(FileFormatError, match="more than 2000000 values") as caught:
        read(tmp_path, "s.yaml", "\n".join(lines))
    assert caught.value.line == 7


@given(st.binary(max_size=200), st.sampled_from(["s.json", "s.yaml", "s.jsonl"]))
def test_any_bytes_give_scenarios_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    """Fuzz: nothing but a FileFormatError comes out."""
    folder = tmp_path_factory.mktemp("fuzz")
    said = str(folder / name)
    try:
        assert isinstance(read(folder, name, content), EvalScenarios)
    except FileFormatError as error:
        said = str(error)
    assert str(folder / name) in said


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "initial_query", "tasks", "scenarios", "max_turns", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from(["s.json", "s.yaml"]),
)
def test_any_json_gives_scenarios_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, value: object, name: str
) -> None:
    """Fuzz by structure: well-formed files with anything in them."""
    folder = tmp_path_factory.mktemp("fuzz")
    try:
        scenarios = read(folder, name, json.dumps(value))
    except FileFormatError:
        return
    assert len(scenarios) > 0
