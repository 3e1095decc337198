"""Files that people write: what is wrong with one is one error that names the place."""

import json
import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import FileFormatError
from scouter.evaluate.files import read as files
from scouter.evaluate.files.json_text import JsonFault
from scouter.evaluate.files.json_text import parse as parse_json
from scouter.evaluate.files.read import read_document, read_json_lines, read_text
from scouter.evaluate.files.yaml_text import line_of as yaml_line
from scouter.evaluate.files.yaml_text import parse as parse_yaml
from scouter.evaluate.scenario import EvalScenarios
from scouter.evaluate.tasks.task import TasksFile

TASK = "{task_type: Assertion, id: a, context_path: x, operator: Equals, expected_value: 1}"


def fault(folder: Path, name: str, content: str | bytes) -> FileFormatError:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileFormatError) as caught:
        list(read_json_lines(path)) if name.endswith(".jsonl") else read_document(path)
    assert str(path) in str(caught.value)
    return caught.value


CASES = {
    # name: (file, content, line, field, words)
    "utf-16": ("a.json", '[\n"é"]'.encode("utf-16"), 1, None, "the file is UTF-16; expected UTF-8"),
    "utf-16 be": ("a.yaml", b"\xfe\xff\x00a", 1, None, "the file is UTF-16; expected UTF-8"),
    "utf-32": ("a.json", "[]".encode("utf-32"), 1, None, "the file is UTF-32"),
    "latin-1": ("a.yaml", "a: b\nb: é".encode("latin-1"), 2, None, "byte 0xe9 is not UTF-8"),
    "NUL in JSON": ("a.json", "[\n1,\x00]", 2, None, "(column 3)"),
    "NUL in YAML": ("a.yaml", "a: 1\nb: \x00\n", 2, None, "expected YAML"),
    "escape in YAML": ("a.yaml", "a: 1\n\nb: \x1b[0m\n", 3, None, "expected YAML"),
    "key twice": ("a.json", '{"a": {"b": [0,\n {"c": 1,\n  "c": 2}]}}', None, None,
                  "the key 'c' stands twice in one object"),
    "escaped key twice": ("a.json", '{"a": 1,\n"\\u0061": 2}', None, None, "'a' stands twice"),
    "key twice below": ("a.json", '{"a": {"a": 1},\n"b": {"a": 1, "b": 2},\n"b": 3}', None, None,
                        "'b' stands twice"),
    "infinity": ("a.json", '{"x": [1,\n -Infinity]}', None, None, "-Infinity is no JSON value"),
    "NaN word in text": ("a.json", '{"x": "NaN",\n "y": NaN}', None, None, "NaN is no JSON value"),
    "1e999": ("a.json", "[1,\n\n1e999]", None, None, "1e999 is beyond the largest number"),
    "5000 digits": ("a.json", f"[\n{'9' * 5000}]", None, None, "has 5000 digits"),
    "deep": ("a.json", "\n" + "[\n" * 100_000, None, None, "nested too deeply"),
    "deep objects": ("a.json", '{"a":\n' * 100_000, None, None, "nested too deeply"),
    "second document": ("a.json", "{}\n{}", 2, None, "Extra data"),
    "jsonl": ("a.jsonl", '{"a": 1}\n{"a": NaN}', 2, None, "Parse error on line 2: NaN is"),
    "jsonl twice": ("a.jsonl", '{"a": 1}\n\n{"a": {"b": 1, "b": 2}}', 3, None, "stands twice"),
    "tag": ("a.yaml", "a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, None, "is not known"),
    "set": ("a.yaml", "a: !!set {x, y}\n", 1, None, "the tag 'set' is not known"),
    "binary": ("a.yaml", "a:\n  - !!binary aGk=\n", 2, None, "the tag 'binary' is not known"),
    "timestamp": ("a.yaml", "a: !!timestamp 2025-01-01\n", 1, None, "'timestamp' is not known"),
    "no bool": ("a.yaml", "a: !!bool maybe\n", 1, None, "'maybe' is no bool"),
    "no int": ("a.yaml", "a:\n  b: !!int x\n", 2, None, "'x' is no int"),
    "nan": ("a.yaml", "a: 1\nb: .nan\n", 2, None, "'.nan' is no JSON value"),
    "inf": ("a.yaml", "a: 1\nb: [-.inf]\n", 2, None, "'-.inf' is no JSON value"),
    "yaml 1e999": ("a.yaml", "a: 1e999\n", 1, None, "'1e999' is no JSON value"),
    "yaml 5000 digits": ("a.yaml", f"a: 1\nb: {'9' * 5000}", 2, None, "a number of 5000 digits"),
    "yaml 5000 hex": ("a.yaml", f"a: 1\nb: 0x{'f' * 5000}", 2, None, "a number of 5002 digits"),
    "yaml key twice": ("a.yaml", "a:\n  b: 1\n  b: 2\n", 3, None, "'b' stands twice"),
    "merge of a word": ("a.yaml", "a: 1\n<<: x\n", 2, None, "'<<' takes in something that is no"),
    "list as a key": ("a.yaml", "a: 1\n? [1]\n: 2\n", 2, None, "a list or an object as a key"),
    "alias of nothing": ("a.yaml", "a: 1\nb: *c\n", 2, None, "undefined alias"),
    "two documents": ("a.yaml", "a: 1\n---\nb: 2\n", 2, None, "expected a single document"),
    "tab": ("a.yaml", "a:\n\t- 1\n", 2, None, "expected YAML"),
    "deep yaml": ("a.yaml", "a: 1\nb: " + "[" * 500, 2, "b", "more than 200 levels"),
    "deep blocks": ("a.yaml", "- " * 500 + "x", 1, None, "more than 200 levels"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_error_with_its_place(tmp_path: Path, case: str) -> None:
    name, content, line, field, words = CASES[case]
    error = fault(tmp_path, name, content)
    assert words in str(error)
    assert (error.line, error.field) == (line, field)


def test_aliases_that_grow_deeper_than_the_text(tmp_path: Path) -> None:
    """Each line holds the one before it: no line is deep, the value is."""
    lines = ["- &a0 [x]", *(f"- &a{at} [*a{at - 1}]" for at in range(1, 300))]
    error = fault(tmp_path, "a.yaml", "\n".join(lines))
    assert "nested more than 200 levels deep" in str(error)
    assert error.line == 201  # `a0` has one level


def test_merges_that_explode(tmp_path: Path) -> None:
    """Ten merges of ten merges of ten: counted like any other alias."""
    lines = ["a0: &a0 {" + ", ".join(f"k{at}: 1" for at in range(10)) + "}"]
    for at in range(1, 9):
        inner = ", ".join([f"*a{at - 1}"] * 10)
        lines.append(f"a{at}: &a{at} {{<<: [{inner}]}}")
    assert "more than 2000000 values" in str(fault(tmp_path, "a.yaml", "\n".join(lines)))


def test_an_alias_as_a_key_changes_no_value() -> None:
    value, _ = parse_yaml("a.yaml", "- &a 5\n- {*a : x}\n- *a\n")
    assert value == [5, {"5": "x"}, 5]


def test_merges_side_by_side_that_explode(tmp_path: Path) -> None:
    """Refused at the first that is too much: all of them built would take gigabytes."""
    wide = ", ".join(f"k{number}: 1" for number in range(2_000))
    error = fault(tmp_path, "a.yaml", f"a: &a {{{wide}}}\nb:\n" + "- <<: *a\n" * 5_000)
    assert "more than 2000000 values" in str(error)
    assert error.line == 2 + 1_000 + 1


def test_merges_follow_the_rule() -> None:
    """Own keys win; of several others the first."""
    text = "- &a {x: 1, y: 1}\n- &b {y: 2, z: 2}\n- {<<: [*a, *b], z: 3}\n- {<<: *b, q: 1}\n"
    value, _ = parse_yaml("a.yaml", text)
    assert value == [{"x": 1, "y": 1}, {"y": 2, "z": 2}, {"x": 1, "y": 1, "z": 3},
                     {"y": 2, "z": 2, "q": 1}]  # fmt: skip


def test_yaml_numbers() -> None:
    value, _ = parse_yaml("a.yaml", "[0x1F, 0o17, -3, +4, 1_000, 1e3, .5, 0b1, 1., 08, 12:30]")
    assert value == [31, 15, -3, 4, "1_000", 1000.0, 0.5, "0b1", 1.0, 8, "12:30"]


def test_limits_on_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 2 << 20)
    monkeypatch.setattr(files, "MAX_YAML_BYTES", 1 << 20)
    for name, limit in (("a.json", 2), ("a.yaml", 1)):
        error = fault(tmp_path, name, " " * ((limit << 20) + 1))
        assert f"too large; expected at most {limit << 20:,} bytes ({limit} MiB)" in str(error)
    (tmp_path / "b.json").write_text("[]" + " " * ((2 << 20) - 2))
    assert read_document(tmp_path / "b.json").value == []


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(FileFormatError, match="too large"):
        read_text("/dev/zero", 1 << 20)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_can_be_read(tmp_path: Path) -> None:
    pipe = tmp_path / "p.json"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"a": 1}',))
    writer.start()
    assert read_document(pipe).value == {"a": 1}
    writer.join()


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "d.json").mkdir()
    with pytest.raises(FileFormatError, match=r"d\.json: cannot read the file: Is a directory"):
        read_document(tmp_path / "d.json")
    with pytest.raises(FileFormatError, match="cannot read the file: "):
        read_document("nul\0.json")
    with pytest.raises(FileFormatError, match="No such file"):
        read_document(tmp_path / "none" / "a.json")
    if os.geteuid():
        (tmp_path / "s.json").write_text("[]")
        (tmp_path / "s.json").chmod(0)
        with pytest.raises(FileFormatError, match="Permission denied"):
            read_document(tmp_path / "s.json")


def load_tasks(folder: Path, text: str) -> FileFormatError:
    path = folder / "t.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileFormatError) as caught:
        TasksFile.from_path(path)
    return caught.value


def test_the_nearest_name_is_offered(tmp_path: Path) -> None:
    """For fields, for operators and for kinds of tasks, wherever in the file they are."""
    path = tmp_path / "s.yaml"
    fields = TASK.replace("context_path", "contextPath")
    path.write_text(f"- initial_query: q\n  tasks:\n  - {TASK}\n  - {fields}\n", encoding="utf-8")
    with pytest.raises(FileFormatError) as caught:
        EvalScenarios.from_path(path)
    error = caught.value
    assert (error.line, error.field) == (4, "[0].tasks[1].contextPath")
    assert "unknown field; expected 'context_path', or another of id, " in str(error)

    path.write_text("- tasks: []\n  intial_query: q\n", encoding="utf-8")
    with pytest.raises(FileFormatError) as caught:
        EvalScenarios.from_path(path)
    error = caught.value
    assert (error.line, error.field) == (2, "[0].intial_query")
    assert "unknown field; expected 'initial_query', or another of " in str(error)

    error = load_tasks(tmp_path, f"- {TASK}\n- {TASK.replace('Equals', 'greater_than')}\n")
    assert (error.line, error.field) == (2, "[1].operator")
    assert "did you mean GreaterThan" in str(error)

    error = load_tasks(tmp_path, f"- {TASK.replace('Assertion', 'assertion')}\n")
    assert (error.line, error.field) == (1, "[0].task_type")
    assert "expected 'Assertion', or another of 'LLMJudge', 'TraceAssertion', " in str(error)
    assert str(error).count("'Assertion'") == 1


def test_a_task_that_is_wrong_as_a_whole_is_named_by_its_place(tmp_path: Path) -> None:
    """Its place is a key of the file; the kind that it was read as is none."""
    text = "- {id: t, task_type: Assertion, context_path: a, operator: Equals}\n"
    error = load_tasks(tmp_path, text)
    assert (error.line, error.field) == (1, "[0]")
    assert "Equals needs an expected_value" in str(error)


def test_a_profile_without_tasks_says_so(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"alias": "a",\n "tasks": []}', encoding="utf-8")
    with pytest.raises(FileFormatError, match="field 'tasks': profile 'a': there are no tasks"):
        AgentEvalProfile.from_file(path)


def test_what_is_wrong_with_a_plan_names_the_task(tmp_path: Path) -> None:
    """The plan is checked after the tasks were read; the line is the task's all the same."""

    def profile(*tasks: str) -> FileFormatError:
        path = tmp_path / "p.yaml"
        path.write_text("alias: a\ntasks:\n" + "".join(f"- {task}\n" for task in tasks))
        with pytest.raises(FileFormatError) as caught:
            AgentEvalProfile.from_file(path)
        return caught.value

    def named(name: str, more: str = "") -> str:
        return TASK.replace("id: a", f"id: {name}").replace("}", f"{more}}}")

    error = profile(named("a"), named("b"), named("C", ", depends_on: [nope]"))
    assert (error.line, error.field) == (5, "tasks[2].depends_on")
    error = profile(named("a"), named("b"), named("A"))
    assert (error.line, error.field) == (5, "tasks[2].id")
    error = profile(named("a"), named("b", ", depends_on: [c]"), named("c", ", depends_on: [b]"))
    assert (error.line, error.field) == (4, "tasks[1].depends_on")
    error = profile(named("a"), named('"its"').replace("context_path: x", 'context_path: "["'))
    assert error.line == 4
    error = profile(named("a"), named("b").replace("Equals", "Matches").replace(": 1", ": '('"))
    assert error.line == 4


letters = st.characters(
    codec="utf-8", exclude_categories=("Cc",), exclude_characters="\ufffe\uffff"
)
"""Letters that YAML allows inside of quotes without an escape; and no halves of letters."""
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(letters, max_size=6)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(letters, max_size=4), inner),
    max_leaves=15,
)  # fmt: skip


@given(values, st.sampled_from([None, 0, 2]))
def test_json_means_what_the_library_says(value: Any, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=indent == 2, indent=indent)
    assert parse_json(text) == value


@given(values)
def test_json_is_yaml(value: Any) -> None:
    """The same text has the same value, whichever of the two it is read as."""
    text = json.dumps(value, ensure_ascii=False)
    found, _ = parse_yaml("a.yaml", text)
    assert json.dumps(found, ensure_ascii=False) == text


def places(value: Any, loc: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a value."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(cast(dict[str, Any], value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast(list[Any], value)))
    return [loc, *(place for key, item in items for place in places(item, (*loc, key)))]


@given(st.lists(values, min_size=1, max_size=3))
def test_every_place_of_yaml_has_its_line(value: list[Any]) -> None:
    """JSON with a line for each value and bracket: places in order are on lines in order."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    _, root = parse_yaml("a.yaml", text)
    lines = [yaml_line(root, loc) for loc in places(value)]
    assert lines == sorted(set(lines))
    assert lines[-1] <= text.count("\n") + 1


@given(st.text(alphabet='{}[]",:\\ \n01eN-', max_size=40))
def test_what_is_no_json_has_a_line_in_the_text(text: str) -> None:
    line: int | None = None
    try:
        parse_json(text)
    except JsonFault as fault:
        line = fault.line
    assert line is None or 1 <= line <= text.count("\n") + 1
