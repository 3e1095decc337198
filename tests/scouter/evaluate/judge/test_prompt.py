"""Prompts: what is a variable, what it puts in, and how prompts are written down."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue, ValidationError

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.judge.prompt import (
    Prompt,
    PromptMessage,
    Provider,
    Role,
    Score,
)
from scouter.evaluate.judge.prompt_text import MAX_CHARACTERS
from scouter.evaluate.judge.render import compile_prompt
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.tasks.base import prompts_beside, read_prompt


def rendered(text: str, scope: Any) -> str:
    prompt = Prompt(text, "m", "openai", fence=False, max_value_characters=MAX_CHARACTERS)
    return compile_prompt(prompt)(scope)[0]["content"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a ${name} b", "a Ann b"),
        ("${ name }", "Ann"),
        ("${steps[0].out}", "first"),
        ("${steps[-1].out}", '{"n": 1, "ü": null}'),
        ("${steps.0.out}${n}", "first3"),
        ('${["a}b"]}', "odd"),
        ("${['a}b']}", "odd"),
        ("{name} {{name}} $name", "{name} {{name}} $name"),
        ("$${name} costs $5", "${name} costs $5"),
        ("${trap}", "${name} $${n}"),
        ("${ok} ${none}", "true null"),
        ("no variable", "no variable"),
    ],
)
def test_what_is_put_in(text: str, shown: str) -> None:
    """Texts as they are, everything else as JSON, and nothing is expanded twice."""
    scope: JsonValue = {
        "name": "Ann",
        "steps": [{"out": "first"}, {"out": {"n": 1, "ü": None}}],
        "n": 3,
        "a}b": "odd",
        "trap": "${name} $${n}",
        "ok": True,
        "none": None,
    }
    assert rendered(text, scope) == shown
    system = Prompt("x", "m", "openai", ["y", text], fence=False)
    assert [each["content"] for each in compile_prompt(system)(scope)] == ["y", shown, "x"]


@given(
    value=st.text(),
    around=st.text(st.characters(exclude_characters="$", exclude_categories=["Cs"])),
)
def test_a_text_arrives_as_it_is(value: str, around: str) -> None:
    """Any text of a record is inserted once, letter by letter, at any place of the variable."""
    assert rendered(f"{around}${{v}}{around}${{v}}", {"v": value}) == (around + value) * 2


def test_what_is_put_in_has_a_limit() -> None:
    """A thousand times the same long text, in a prompt of one line; counted anew each time."""
    part = "a" * (MAX_CHARACTERS // 2)
    for _ in range(2):
        assert rendered("${v}${v}", {"v": part}) == part * 2
    with pytest.raises(TaskFault, match="more than 10,000,000 characters into the prompt"):
        rendered("${v}${v}${v}", {"v": part})


def test_every_message_is_rendered_in_order() -> None:
    prompt = Prompt(
        ["${a}", PromptMessage(role=Role.Assistant, content="${b}"), {"content": "c"}],
        model="m",
        provider="openai",
        system_instructions=["be ${c}", {"role": "developer", "content": "d"}],
        fence=False,
    )
    assert compile_prompt(prompt)({"a": "1", "b": 2, "c": "kind"}) == (
        {"role": "system", "content": "be kind"},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "c"},
    )
    assert prompt.parameters == ["c", "a", "b"]


@pytest.mark.parametrize("where", ["messages", "system_instructions"])
def test_a_missing_variable_names_the_path_and_the_keys_there_are(where: str) -> None:
    prompt = Prompt.model_validate(
        {"messages": "x", "model": "m", "provider": "openai", where: ["${order.sku}"]}
    )
    with pytest.raises(TaskFault) as caught:
        compile_prompt(prompt)({"order": {"id": 1, "price": 2}})
    assert caught.value.reason is Reason.MISSING_PATH
    text = str(caught.value)
    assert "${order.sku}" in text
    assert "'id', 'price'" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one\ntwo ${three", "line 2"),
        ("${a b}", "character 2"),
        ("${}", "empty"),
        ('${["a]}', "'${' without '}'"),
        ("${" * 5000, "without"),
    ],
)
def test_what_is_no_variable_is_refused_when_the_prompt_is_made(text: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Prompt(text, "m", "openai")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("written", "provider"),
    [
        ("OpenAI", Provider.OpenAI),
        ("openai", Provider.OpenAI),
        (Provider.Anthropic, Provider.Anthropic),
        ("GoogleAdk", Provider.GoogleAdk),
        ("google_adk", Provider.GoogleAdk),
        ("my-proxy.eu", "my-proxy.eu"),
    ],
)
def test_providers(written: str, provider: str) -> None:
    assert Prompt("x", "m", written).provider == provider


@pytest.mark.parametrize("name", ["https://evil.example", "", "a b", "../x", "é"])
def test_a_provider_is_a_name_and_no_address(name: str) -> None:
    with pytest.raises(ValidationError, match="no provider's name"):
        Prompt("x", "m", name)


class Verdict(BaseModel):
    ok: bool


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        (Verdict, Verdict.model_json_schema()),
        (Score, Score.model_json_schema()),
        ("Score", Score.model_json_schema()),
        ({"type": "object"}, {"type": "object"}),
        (int, {"type": "integer"}),
        (None, None),
    ],
)
def test_output_types_are_stored_as_schemas(given: object, schema: object) -> None:
    assert Prompt("x", "m", "openai", output_type=given).output_type == schema


@pytest.mark.parametrize("given", ["Verdict", Callable[[int], int], ModuleType, 5])
def test_what_has_no_schema_is_refused(given: object) -> None:
    with pytest.raises(ValidationError, match="JSON schema"):
        Prompt("x", "m", "openai", output_type=given)


@dataclass
class VendorMessage:
    role: str
    content: str


def test_a_vendors_message_class_is_read() -> None:
    prompt = Prompt(VendorMessage("User", "hi"), "m", "openai", VendorMessage("developer", "sys"))
    assert prompt.messages == (PromptMessage(role=Role.User, content="hi"),)
    assert prompt.system_instructions[0].role is Role.Developer
    assert Role.User.as_str() == "user"


def test_arguments_are_checked_like_those_of_a_function() -> None:
    with pytest.raises(TypeError, match="twice"):
        Prompt("x", "m", "openai", model="n")  # pyright: ignore[reportCallIssue] — the point
    with pytest.raises(TypeError, match="9 by position"):
        Prompt("x", "m", "openai", None, None, None, True, 100, 1)  # pyright: ignore[reportCallIssue]


YAML = """
model: some-model
provider: Google
messages:
  - "Is ${text} kind?"
system_instructions:
  - You are fair.
settings:
  temperature: 0.5
output_type: Score
"""


def test_files(tmp_path: Path) -> None:
    """A saved prompt reads back; YAML says the same as code."""
    path = tmp_path / "kind.yaml"
    path.write_text(YAML, encoding="utf-8")
    prompt = Prompt.from_path(path)
    same = Prompt(
        "Is ${text} kind?", "some-model", "google", "You are fair.", {"temperature": 0.5}, Score
    )
    assert prompt == same
    assert Prompt.from_path(prompt.save_prompt(tmp_path / "kind.json")) == same
    assert Prompt.model_validate_json(prompt.model_dump_json()) == same
    assert prompt.response_json_schema is not None
    assert '"integer"' in prompt.response_json_schema


def test_a_wrong_file_names_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "kind.yaml"
    path.write_text(YAML + "temprature: 1\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"kind.yaml, line 11, field 'temprature'"):
        Prompt.from_path(path)


def test_a_path_is_followed_only_where_a_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the file first, else in the working folder; nowhere if the profile came by network."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "sub/a.yaml").write_text(YAML.replace("kind", "near"), encoding="utf-8")
    (tmp_path / "elsewhere/b.yaml").write_text(YAML.replace("kind", "far"), encoding="utf-8")
    monkeypatch.chdir(tmp_path / "elsewhere")
    with prompts_beside(tmp_path / "sub" / "tasks.yaml"):
        near, far = read_prompt({"path": "a.yaml"}), read_prompt({"path": "b.yaml"})
        with pytest.raises(FileFormatError, match=r"c\.yaml"):
            read_prompt({"path": "c.yaml"})
        with pytest.raises(ValueError, match="is a text, got int"):
            read_prompt({"path": 5})
    assert isinstance(near, Prompt)
    assert isinstance(far, Prompt)
    assert "near" in near.messages[0].content
    assert "far" in far.messages[0].content
    with pytest.raises(ValueError, match="only a file of tasks can name"):
        read_prompt({"path": str(tmp_path / "sub" / "a.yaml")})


def test_a_prompt_tells_model_and_messages() -> None:
    prompt = Prompt(["one", "two"], "gpt-4o", "OpenAI", "be strict", output_type="Score")

    assert prompt.model_identifier == "openai:gpt-4o"
    assert [each.content for each in prompt.all_messages] == ["be strict", "one", "two"]
    assert prompt.message.content == "two"
    assert json.loads(prompt.response_json_schema_pretty or "") == prompt.output_type
    assert "\n" in (prompt.response_json_schema_pretty or "")
    assert Prompt("one", "m", "openai").response_json_schema_pretty is None


def test_bound_variables_are_text_from_then_on() -> None:
    """Each in all messages; what a value holds is not expanded, and escapes stay escapes."""
    prompt = Prompt("${a} ${b.c} $${x} ${d}", "m", "openai", "rate ${a}", fence=False)
    bound = prompt.bind("b.c", [1, "ü"]).bind(a="${d}")

    assert prompt.parameters == ["a", "b.c", "d"]
    assert bound.parameters == ["d"]
    rendered = compile_prompt(bound)({"d": "D"})
    assert [each["content"] for each in rendered] == ["rate ${d}", '${d} [1, "ü"] ${x} D']
    assert prompt.bind() == prompt


def test_variables_can_read_from_other_paths() -> None:
    """All at once, so that two can change places; escapes stay escapes."""
    prompt = Prompt("${a} ${b.c} $${a} ${d}", "m", "openai", "rate ${a}", fence=False)
    moved = prompt.renamed({"a": "b.c", "b.c": "a"})

    assert moved.parameters == ["b.c", "a", "d"]
    rendered = compile_prompt(moved)({"a": 1, "b": {"c": 2}, "d": 3})
    assert [each["content"] for each in rendered] == ["rate 2", "2 1 ${a} 3"]
    with pytest.raises(ConfigError, match=r"no variable 'x'; its variables are a, b\.c, d"):
        prompt.renamed({"x": "y"})
    with pytest.raises(ValidationError, match="character 2"):
        prompt.renamed({"a": "b c"})


def test_binding_what_is_no_variable_is_refused() -> None:
    with pytest.raises(ConfigError, match="no variable 'b'; its variables are a"):
        Prompt("${a}", "m", "openai").bind(b=1)
    with pytest.raises(ConfigError, match="its variables are none"):
        Prompt("hi", "m", "openai").bind("b", 1)
