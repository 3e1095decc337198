"""Profiles from the network: every attack is refused, by task and field; honest ones are read."""

import json
import re
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scouter.drift.profile import AgentEvalProfile, shipped_profiles
from scouter.drift.wire import read_wire_profile
from scouter.drift.wire_limits import WireLimits, schema_parts
from scouter.drift.wire_tasks import WireProfileError
from tests.support.examples import examples

Json = dict[str, Any]


def body(*tasks: Json, **fields: Any) -> bytes:
    return json.dumps({"alias": "a", "tasks": list(tasks), **fields}).encode()


def assertion(number: int = 0, **fields: Any) -> Json:
    base = {"id": f"t{number}", "task_type": "Assertion", "context_path": "answer"}
    return {**base, "operator": "Equals", "expected_value": 1, **fields}


def matching(pattern: str, number: int = 0) -> Json:
    return assertion(number, operator="MatchesRegex", expected_value=pattern)


def schema(content: Any, number: int = 0) -> Json:
    return assertion(number, operator="MatchesJsonSchema", expected_value=content)


def judge(number: int = 0, task: Json | None = None, **prompt: Any) -> Json:
    prompt_file = {
        "provider": "house",
        "model": "gpt-4o-mini",
        "messages": "Good? ${answer}",
        **prompt,
    }
    base = {"id": f"j{number}", "task_type": "LLMJudge", "context_path": "score"}
    return {
        **base,
        "operator": "Equals",
        "expected_value": 1,
        "prompt": prompt_file,
        **(task or {}),
    }


def rubric(criteria: int, characters: int) -> Json:
    return {f"c{n}": "x" * characters for n in range(criteria)}


def on_trace(found: Json) -> Json:
    base = {"id": "t0", "task_type": "TraceAssertion", "assertion": found}
    return {**base, "operator": "Equals", "expected_value": 1}


def span_count(filters: Json) -> Json:
    return on_trace({"SpanCount": {"filter": filters}})


def doubled(levels: int) -> Json:
    """Each definition refers to the next one twice: 2 ** levels checks of one value."""
    defs: Json = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "string"}}}


def calls(count: int, **rules: Any) -> Json:
    """Hold an agent's calls against so many expected ones."""
    reference = [{"tool_name": "a", "tool_input": {"x": n}} for n in range(count)]
    base = {"id": "t0", "task_type": "Trajectory", "metric": "recall"}
    return {**base, "reference": reference, "rules": rules}


def tools(count: int) -> Json:
    return {"id": "t0", "task_type": "Reliability", "expected_tool_calls": ["a"] * count}


def journey(goals: int) -> Json:
    names = [f"g{n}" for n in range(goals)]
    details: list[Json] = [
        {"type": "tool_call", "name": name, "tool_name": "a", "args": {}} for name in names
    ]
    goals_of: Json = {name: [] for name in names}
    dataset = {"story": "s", "goals": goals_of, "goal_details": details}
    return {"id": "t0", "task_type": "Journey", "dataset": dataset}


def report(fields: int, pattern: str = "a") -> Json:
    tree = {"method": "average", "fields": {f"f{n}": {"method": "regex"} for n in range(fields)}}
    base = {"id": "t0", "task_type": "Report", "metrics": {"r": tree}}
    return {**base, "reference": {"f0": pattern}}


def settings_of(name: str, value: Any) -> Json:
    return judge(model_settings={name: value})


ATTACKS: dict[str, tuple[bytes, str]] = {
    # a judge's address, key, headers, tools and files
    "base-url": (
        body(settings_of("base_url", "http://169.254.169.254/")),
        "task 'j0', field 'prompt.model_settings.base_url'",
    ),
    "api-key": (body(settings_of("api_key", "sk-1")), "'prompt.model_settings.api_key'"),
    "headers": (body(settings_of("extra_headers", {})), "'prompt.model_settings.extra_headers'"),
    "extra-body": (body(settings_of("extra_body", {})), "'prompt.model_settings.extra_body'"),
    "tools": (body(settings_of("tools", [])), "'prompt.model_settings.tools'"),
    "timeout": (body(settings_of("timeout", 9e9)), "'prompt.model_settings.timeout'"),
    "nested-address": (
        body(settings_of("generation_config", {"apiEndpoint": "http://x"})),
        "'prompt.model_settings.generation_config.apiEndpoint'",
    ),
    "word-that-is-a-path": (body(settings_of("type", "/etc/passwd")), "expected a word"),
    "number-that-is-a-text": (body(settings_of("seed", "http://x")), "expected a number"),
    "answer-without-end": (
        body(settings_of("max_tokens", 32_001)),
        "'prompt.model_settings.max_tokens': expected at most 32,000 tokens",
    ),
    "thinking-without-end": (
        body(settings_of("thinking_config", {"thinkingBudget": 10**9})),
        "'prompt.model_settings.thinking_config.thinkingBudget': expected at most",
    ),
    "many-answers-at-once": (body(settings_of("n", 128)), "'prompt.model_settings.n'"),
    "number-beyond": (body(settings_of("max_tokens", 10**4000)), "prompt"),
    "address-of-prompt": (body(judge(base_url="http://x")), "task 'j0', field 'prompt.base_url'"),
    "key-of-task": (body(judge(task={"api_key": "x"})), "task 'j0', field 'api_key'"),
    "provider-is-an-address": (
        body(judge(provider="https://evil.example/v1")),
        "task 'j0', field 'prompt.provider'",
    ),
    "provider-is-code": (body(judge(provider="os:system")), "'prompt.provider'"),
    "model-is-an-address": (
        body(judge(model="openai/http://x")),
        "task 'j0', field 'prompt.model'",
    ),
    "model-is-a-file": (body(judge(model="/etc/passwd")), "'prompt.model'"),
    "model-is-a-file-above": (body(judge(model="a/../../b")), "'prompt.model'"),
    "prompt-is-a-file": (
        body(judge(task={"prompt": {"path": "/etc/passwd"}})),
        "task 'j0', field 'prompt'",
    ),
    "foreign-prompt-with-address": (
        body(
            judge(
                task={
                    "prompt": {
                        "model": "m",
                        "provider": "openai",
                        "request": {"messages": [], "base_url": "http://x"},
                    }
                }
            )
        ),
        "task 'j0'",
    ),
    "callable": (body(assertion(function="os.system")), "task 't0', field 'function'"),
    "callable-kind": (body(assertion(task_type="Callable")), "task 't0', field 'task_type'"),
    "webhook": (
        body(
            assertion(),
            config={"alert_config": {"dispatch_config": {"Webhook": {"url": "http://x"}}}},
        ),
        "field 'config.alert_config.dispatch_config'",
    ),
    "unknown-field": (body(assertion(), callback="http://x"), "field 'callback'"),
    # cost
    "too-many-tasks": (body(*map(assertion, range(257))), "task 't256': a profile has at most 256"),
    "too-deep": (b'{"alias": "a", "tasks": ' + b"[" * 100_000, "more than 64 levels"),
    "deep-and-whole": (b"[" * 65 + b"]" * 65, "more than 64 levels"),
    "too-many-values": (body(assertion(expected_value=[0] * 50_000)), "more than 50,000 values"),
    "too-large": (body(assertion(expected_value="x" * 2**20)), "at most 1,048,576 bytes"),
    "pattern-too-long": (body(matching("a" * 1_001)), "task 't0', field 'expected_value'"),
    "pattern-too-large": (body(matching(r"(\w{0,40}x){0,20}")), "instructions"),
    "pattern-of-classes": (body(matching(r"\pL{1,100}")), "instructions"),
    "nested-counts": (body(matching("((a{100}){100}){100}")), "use smaller counts"),
    "backtracking": (body(matching(r"(a+)+\1")), "backreferences"),
    "too-many-patterns": (body(*(matching(f"a{n}", n) for n in range(65))), "task 't64'"),
    "pattern-of-span-names": (
        body(span_count({"ByNamePattern": {"pattern": "(a{50}){50}"}})),
        "task 't0', field 'assertion.SpanCount.filter'",
    ),
    "pattern-in-schema": (body(schema({"pattern": "(a{50}){50}"})), "'expected_value'"),
    "pattern-of-property": (
        body(schema({"patternProperties": {"(a{50}){50}": {}}})),
        "'expected_value'",
    ),
    "pattern-inside-filter": (
        body(
            on_trace(
                {
                    "AttributeFilter": {
                        "key": "k",
                        "mode": "Any",
                        "task": {"Assertion": matching("(a{50}){50}", 1)},
                    }
                }
            )
        ),
        "task 't0', field 'assertion.AttributeFilter.task.Assertion.expected_value'",
    ),
    "schema-from-elsewhere": (body(schema({"$ref": "http://x/s.json"})), "not inside it"),
    "schema-from-a-file": (body(schema({"$ref": "file:///etc/passwd"})), "not inside it"),
    "schema-with-dynamic-reference": (body(schema({"$dynamicRef": "#a"})), "not inside it"),
    "too-many-schemas": (body(*(schema({"title": str(n)}, n) for n in range(17))), "task 't16'"),
    "path-too-long": (body(assertion(context_path="a" * 513)), "task 't0'"),
    "path-of-many-steps": (body(assertion(context_path=".".join("a" * 33))), "task 't0'"),
    "too-many-json-paths": (
        body(*(assertion(n, context_path=f"$..a{n}") for n in range(17))),
        "task 't16', field 'context_path'",
    ),
    "json-paths-in-variables": (
        body(assertion(expected_value="${ $..a}" * 17)),
        "more than 16 JSONPaths",
    ),
    "too-many-variables": (body(judge(messages="${a}" * 1_001)), "more than 1,000 variables"),
    "too-many-filters": (
        body(span_count({"Or": {"filters": [{"ByName": {"name": "x"}}] * 256}})),
        "task 't0', field 'assertion.SpanCount.filter'",
    ),
    "too-long-prompts": (
        body(judge(messages="x" * 100_001), judge(1, messages="x" * 100_000)),
        "task 'j1', field 'prompt.messages'",
    ),
    "too-many-judge-calls": (
        body(*(judge(n, task={"max_retries": 20}) for n in range(5))),
        "task 'j4', field 'max_retries'",
    ),
    "too-many-samples": (
        body(judge(task={"samples": 25}), judge(1, task={"samples": 1})),
        "task 'j1', field 'max_retries': a profile has at most 100 judge calls",
    ),
    "too-many-orders": (
        body(
            judge(
                task={"samples": 13, "swap": {"first": "answer", "second": "other"}},
                messages="${answer} or ${other}?",
            )
        ),
        "task 'j0', field 'max_retries'",
    ),
    "too-long-rubrics": (
        body(*(judge(n, task={"rubric": rubric(50, 2_000)}) for n in range(2))),
        "task 'j1', field 'rubric': a profile has at most 200,000 prompts characters",
    ),
    # what is compared, and with how much
    "reference-calls": (
        body({**calls(0), "reference": [{"tool_name": "a"}] * 10_000}),
        "task 't0', field 'reference': a profile has at most 1,000 reference calls",
    ),
    "reference-calls-with-arguments": (body(calls(10_000)), "more than 50,000 values"),
    "assignment": (
        body(calls(200, arguments="superset")),
        "task 't0', field 'reference': a profile has at most 100 assigned calls",
    ),
    "assignment-in-parts": (body(calls(200, partial_credit=True)), "at most 100 assigned calls"),
    "expected-tools": (
        body(tools(10_000)),
        "task 't0', field 'expected_tool_calls': a profile has at most 1,000 reference calls",
    ),
    "journey-goals": (
        body(journey(201)),
        "task 't0', field 'dataset.goal_details': a profile has at most 200 journey goals",
    ),
    "report-fields": (
        body(report(1_000)),
        "task 't0', field 'metrics': a profile has at most 1,000 report fields",
    ),
    "patterns-of-a-report": (
        body(report(1, "a" * 1_001)),
        "task 't0', field 'reference.f0': a pattern has at most 1,000 characters",
    ),
    "reference-is-no-path": (body(judge(task={"reference": "a b"})), "task 'j0'"),
    "fence-is-no-word": (body(judge(fence="no")), "field 'prompt.fence'"),
    # texts that are none, and names that would be another line of a log
    "half-a-character": (b'{"alias": "\\ud800", "tasks": []}', "half a character"),
    "line-in-alias": (body(assertion(), alias="a\nERROR all is lost"), "field 'alias'"),
    "line-in-name": (body(assertion(), config={"name": "a\nERROR"}), "field 'name'"),
    "colour-in-version": (body(assertion(), config={"version": "\x1b[31m"}), "field 'version'"),
    "line-in-id": (body(assertion(id="a\nb")), "field 'id'"),
    "key-twice": (b'{"alias": "a", "alias": "b", "tasks": []}', "twice"),
    "not-a-number": (b'{"alias": NaN}', "not JSON"),
    "not-utf-8": (b"\xff", "not JSON"),
    "nothing": (b"", "not JSON"),
    "no-object": (b"[]", "expected an object"),
    "no-tasks": (body(), "tasks"),
    "tasks-are-a-text": (b'{"alias": "a", "tasks": "http://x"}', "field 'tasks'"),
    "circle": (
        body(assertion(depends_on=["t1"]), assertion(1, depends_on=["t0"])),
        "t0",
    ),
}


@pytest.mark.pace
@pytest.mark.parametrize(("sent", "message"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused_soon(sent: bytes, message: str) -> None:
    began = time.process_time()
    with pytest.raises(WireProfileError) as refused:
        read_wire_profile(sent)
    assert message in str(refused.value)
    assert time.process_time() - began < 1


HONEST: dict[str, Json] = {
    "address-as-data": assertion(expected_value="https://shop.example/orders"),
    "pattern-of-addresses": matching(r"https?://[^\s]+/v1\?api_key=[a-z]+"),
    "path-as-data": assertion(expected_value={"path": "/etc/passwd", "headers": {"base_url": 1}}),
    "address-in-prompt": judge(messages="Is http://x in ${answer}? The api_key is: secret"),
    "arguments-as-data": assertion(
        task_type="AgentAssertion",
        assertion={"ToolCalledWithArgs": {"name": "get", "arguments": {"url": "http://x"}}},
    ),
    "a-thousand-calls": calls(500),
    "a-hundred-assigned": calls(100, arguments="superset"),
    "a-report": report(3),
    "schema-with-id": schema({"$id": "https://shop.example/order", "properties": {"$id": {}}}),
    "schema-that-doubles": schema(doubled(20)),  # what it costs is bounded where it is used
    "schema-that-loops": schema(
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}
    ),
    "schema-of-answer": judge(output_type=doubled(20)),
    "everything-of-a-judge": judge(
        task={
            "samples": 3,
            "vote": "median",
            "scale": [1, 5],
            "may_abstain": True,
            "reference": "want",
            "sample_rate": 0.1,
        },
        max_value_characters=500,
        fence=False,
    ),
    "pair": judge(
        task={"swap": {"first": "answer", "second": "other", "tie": "tie"}},
        messages="${answer} or ${other}?",
    ),
    "rubric": judge(task={"rubric": rubric(50, 2_000)}),
    "settings": judge(
        model_settings={
            "temperature": 0.2,
            "stop": "END",
            "generation_config": {"topP": 0.5, "thinkingConfig": {"includeThoughts": False}},
        },
        output_type="Score",
        model="projects/p/models/m@001",
    ),
}


@pytest.mark.parametrize("task", HONEST.values(), ids=HONEST)
def test_data_may_be_anything(task: Json) -> None:
    """Fields are refused for what they mean, not for what is written in them."""
    (read,) = read_wire_profile(body(task)).tasks
    assert read.id == task["id"]


@pytest.mark.parametrize("name", shipped_profiles())
def test_what_was_saved_is_read_back_the_same(name: str, tmp_path: Path) -> None:
    """Prompt files are in it: nothing is left that only the sender's disk has."""
    profile = AgentEvalProfile.from_file(name)
    assert read_wire_profile(profile.save_to_json(tmp_path / "p.json").read_bytes()) == profile


def test_prompt_files_are_inlined_on_save(tmp_path: Path) -> None:
    prompt_file = {"provider": "house", "model": "m", "messages": "Good? ${answer}"}
    (tmp_path / "judge.json").write_text(json.dumps(prompt_file))
    (tmp_path / "p.json").write_bytes(body(judge(task={"prompt": {"path": "judge.json"}})))
    local = AgentEvalProfile.from_file(tmp_path / "p.json")
    saved = local.save_to_json(tmp_path / "saved.json").read_bytes()
    assert b"judge.json" not in saved
    assert read_wire_profile(saved) == local


def test_seeds_of_the_fuzz_are_honest() -> None:
    assert [len(read_wire_profile(seed).tasks) for seed in _SEEDS] == [len(HONEST), 2]


def test_a_local_file_is_as_free_as_ever(tmp_path: Path) -> None:
    many = body(*map(assertion, range(300)), settings_of("base_url", "http://localhost:1"))
    (tmp_path / "p.json").write_bytes(many)
    assert len(AgentEvalProfile.from_file(tmp_path / "p.json").tasks) == 301
    with pytest.raises(WireProfileError):
        read_wire_profile(many)


def test_the_page_says_the_limits() -> None:
    """Names and numbers of the table are those of the model."""
    page = Path(__file__).parents[3] / "docs" / "profiles.md"
    rows = re.findall(r"^\| `(\w+)` \| ([0-9,]+) \|", page.read_text(encoding="utf-8"), re.M)
    defaults = {name: int(number.replace(",", "")) for name, number in rows}
    assert defaults == {field.name: field.default for field in fields(WireLimits)}


def test_limits_are_arguments() -> None:
    two = body(assertion(), assertion(1))
    with pytest.raises(WireProfileError, match="at most 1 tasks"):
        read_wire_profile(two, WireLimits(tasks=1))
    assert len(read_wire_profile(two, WireLimits(tasks=2)).tasks) == 2


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (True, 0),
        ({"type": "string"}, 1),
        ({"properties": {"a": {"type": "string"}, "b": {}}}, 4),
        ({"anyOf": [{"type": "null"}, {"minimum": 1}]}, 3),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, 4),
        ({"enum": [{"a": 1}]}, 2),
    ],
)
def test_keywords_by_hand(content: Any, count: int) -> None:
    assert schema_parts(content)[0] == count


# --- any body whatever ----------------------------------------------------------------------

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(
        [
            "http://169.254.169.254/", "/etc/passwd", "${$..a}", "${", "$.a[?@.b]", "(a{99}){99}",
            "LLMJudge", "TraceAssertion", "MatchesJsonSchema", "Matches", "j0", "t0", "\ud800",
        ]
    ),
)  # fmt: skip
_keys = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        [
            "path", "prompt", "tasks", "$ref", "id", "operator", "expected_value", "assertion",
            "base_url", "request", "filter", "config", "model_settings", "pattern", "depends_on",
        ]
    ),
)  # fmt: skip
any_json = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=20,
)
_SEEDS = [
    body(*({**task, "id": f"x{n}"} for n, task in enumerate(HONEST.values()))),
    body(judge(), span_count({"Not": {"filter": {"ByNamePattern": {"pattern": "a+"}}}})),
]


def _change(draw: st.DrawFn, document: Any) -> None:
    """Put something somewhere, on a way down that is drawn."""
    node: Any = document
    while node and isinstance(node, dict | list):
        inside = cast("Json | list[Any]", node)
        keys: list[Any] = list(inside) if isinstance(inside, dict) else [*range(len(inside))]
        inner = cast(Any, node[draw(st.sampled_from(keys))])
        if not isinstance(inner, dict | list) or draw(st.booleans()):
            break
        node = cast(Any, inner)
    if isinstance(node, dict):
        known = list(cast(Json, node)) or ["a"]
        node[draw(st.sampled_from(known) | _keys)] = draw(any_json)
    else:
        node.append(draw(any_json))


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """An honest profile with some places replaced, added or taken out."""
    document = json.loads(draw(st.sampled_from(_SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        _change(draw, document)
    return document


class _Watch:
    """Notes what its thread opens, connects to or runs while it is on; code that is loaded aside.

    Other threads of the test's process, such as an exporter that an earlier test left, are not its
    business.
    """

    code = (
        sys.prefix,
        sys.base_prefix,
        str(Path(read_wire_profile.__code__.co_filename).parents[2]),
    )

    def __init__(self) -> None:
        self.is_on, self.seen = False, list[str]()
        self._thread = threading.get_ident()
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on or threading.get_ident() != self._thread:
            return
        if not event.startswith(("open", "socket.", "subprocess.", "os.")):
            return
        is_code = event in ("open", "os.listdir") and str(arguments[0]).startswith(self.code)
        if not is_code:
            self.seen.append(f"{event} {arguments}")

    def read(self, sent: bytes) -> float:
        """Read a profile; the seconds of the processor that it took, on a busy machine too."""
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # of code that is loaded
        began, self.is_on = time.thread_time(), True
        try:
            read_wire_profile(sent)
        except WireProfileError as error:
            message = str(error)
        else:
            message = "taken"
        finally:
            self.is_on, sys.dont_write_bytecode = False, before
        assert message
        return time.thread_time() - began


_WATCH = _Watch()  # a hook cannot be taken out again


def test_the_watch_sees_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    _WATCH.is_on = True
    (tmp_path / "secret").read_text()
    _WATCH.is_on = False
    (seen,) = _WATCH.seen
    _WATCH.seen.clear()
    assert "secret" in seen


def test_the_watch_leaves_other_threads_alone(tmp_path: Path) -> None:
    other = threading.Thread(target=(tmp_path / "log").write_text, args=("x",))
    _WATCH.is_on = True
    other.start()
    other.join()
    _WATCH.is_on = False
    assert (tmp_path / "log").read_text() == "x"
    assert _WATCH.seen == []


@pytest.mark.parametrize("sent", [sent for sent, _ in ATTACKS.values()], ids=ATTACKS)
def test_an_attack_reaches_nothing(sent: bytes) -> None:
    _WATCH.read(sent)
    assert _WATCH.seen == []


@pytest.mark.pace
@pytest.mark.hypothesis  # it does not see what is inside of a test
@pytest.mark.parametrize("strategy", [any_json, mutated()], ids=["any", "mutated"])
def test_any_body_is_read_or_refused(strategy: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=examples(75), deadline=None, database=None)
    @given(strategy)
    def check(document: Any) -> None:
        assert _WATCH.read(json.dumps(document).encode()) < 1

    check()
    assert _WATCH.seen == []
