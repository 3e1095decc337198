"""Templates in expected values."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.paths.templates import MAX_CHARACTERS, compile_template
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord

SCOPE: JsonValue = {
    "n": 5,
    "name": "Ada",
    "list": [1, 2],
    "obj": {"k": True},
    "x.y": {"z": "deep"},
    "br}ace": 1,
    "tpl": "${n}",
    "nothing": None,
}


@pytest.mark.parametrize(
    ("template", "resolved"),
    [
        ("${n}", 5),
        ("${ n }", 5),
        ("${list}", [1, 2]),
        ("n is ${n}", "n is 5"),
        ("${name}", "Ada"),
        ("${name}/${n}", "Ada/5"),
        ("${name}${name}", "AdaAda"),
        ("all: ${obj} ${list} ${nothing}", 'all: {"k": true} [1, 2] null'),
        (["${n}", "x", 3], [5, "x", 3]),
        ({"a": {"b": ["${name}!"]}}, {"a": {"b": ["Ada!"]}}),
        ({"${n}": "${n}"}, {"${n}": 5}),
        ('${["x.y"].z}', "deep"),
        ('${["br}ace"]}', 1),
        ("${list[-1]}", 2),
        ("$${n} is ${n}", "${n} is 5"),
        ("$5 and ${n}", "$5 and 5"),
        ("${tpl}", "${n}"),
        ("<${tpl}>", "<${n}>"),
    ],
)
def test_resolved(template: JsonValue, resolved: JsonValue) -> None:
    """A value that was put in is never expanded again (the last two)."""
    resolve = compile_template(template)
    assert resolve is not None
    assert resolve(SCOPE) == resolved


@pytest.mark.parametrize("value", ["plain", "$5", "{n}", 5, None, ["a"], {"${n}": 1}])
def test_values_without_a_template_are_left_alone(value: JsonValue) -> None:
    assert compile_template(value) is None


@pytest.mark.parametrize("template", ["${", "${n", "${}", "${a b}", "x ${a..b}", ["${"]])
def test_what_is_no_template_is_refused(template: JsonValue) -> None:
    with pytest.raises(ConfigError, match=r"template"):
        compile_template(template)


def test_a_path_that_leads_nowhere_is_the_expected_values_fault() -> None:
    resolve = compile_template("${obj.q}")
    assert resolve is not None
    with pytest.raises(TaskFault) as caught:
        resolve(SCOPE)
    assert caught.value.reason is Reason.EXPECTED
    assert "'k'" in str(caught.value)


def test_what_is_put_into_texts_has_a_limit() -> None:
    """A thousand times the same long text, in a profile of one line; counted anew each time."""
    resolve = compile_template(["${text}${text}", "${text}${text}"])
    assert resolve is not None
    fits: JsonValue = {"text": "a" * (MAX_CHARACTERS // 4)}
    for _ in range(2):
        assert resolve(fits) == ["a" * (MAX_CHARACTERS // 2)] * 2
    long: JsonValue = "a" * (MAX_CHARACTERS // 4 + 1)
    wide: JsonValue = [*[0] * (MAX_CHARACTERS // 11)]
    for text in (long, wide):
        with pytest.raises(TaskFault, match="more than 1,000,000 characters") as caught:
            resolve({"text": text})
        assert caught.value.reason is Reason.LIMIT


def test_results_show_the_resolved_value() -> None:
    plan = compile_plan([AssertionTask("t", "answer", "${want}", Op.Contains)])
    result = evaluate_record(plan, EvalRecord({"answer": "It is Paris", "want": "Paris"})).tasks[0]
    assert (result.outcome, result.expected, result.actual) == ("passed", "Paris", "It is Paris")

    wrong = evaluate_record(plan, EvalRecord({"answer": "It is Lyon", "want": "Paris"})).tasks[0]
    assert wrong.message == '\'answer\' is "It is Lyon", expected Contains "Paris"'


def test_a_record_cannot_bring_a_pattern() -> None:
    with pytest.raises(ConfigError, match="never used as a pattern"):
        compile_plan([AssertionTask("t", "answer", "${want}", Op.Matches)])


def test_a_record_cannot_bring_the_type_of_an_operator() -> None:
    plan = compile_plan([AssertionTask("t", "n", "${limit}", Op.LessThan)])
    result = evaluate_record(plan, EvalRecord({"n": 1, "limit": "many"})).tasks[0]
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.EXPECTED)
    assert result.expected == "many"


@pytest.mark.parametrize("operator", [Op.Matches, Op.MatchesRegex, Op.MatchesJsonSchema])
@pytest.mark.parametrize("expected", ["${want}", {"pattern": "${want}"}, ["a", {"b": "x ${want}"}]])
def test_what_steers_a_comparison_takes_no_template(operator: Op, expected: JsonValue) -> None:
    with pytest.raises(ConfigError, match=r"takes no template.*\[\$\]\{"):
        compile_plan([AssertionTask("t", "answer", expected, operator)])


def test_the_characters_themselves_in_a_pattern() -> None:
    plan = compile_plan([AssertionTask("t", "answer", "^[$]{want}$", Op.Matches)])
    assert evaluate_record(plan, EvalRecord({"answer": "${want}", "want": "x"})).tasks[0].passed


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values: st.SearchStrategy[JsonValue] = st.recursive(
    texts | st.integers() | st.sampled_from(["${secret}", "$${", "${"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(values)
def test_a_value_of_a_record_is_put_in_as_it_is(value: JsonValue) -> None:
    """The value may hold anything, also templates: they are never expanded again."""
    scope: JsonValue = {"v": value, "secret": "s"}
    template: JsonValue = {"whole": "${v}", "list": ["${v}", "${secret}"], "part": "<${v}>"}
    resolve = compile_template(template)
    assert resolve is not None
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    assert resolve(scope) == {"whole": value, "list": [value, "s"], "part": f"<{shown}>"}


@given(st.lists(texts.filter(lambda text: "$" not in text), min_size=1, max_size=4))
def test_literal_and_template_parts_keep_their_order(parts: list[str]) -> None:
    template = "${n}".join(parts) + "$${x}"
    resolve = compile_template(template)
    assert resolve is not None

    assert resolve(SCOPE) == "5".join(parts) + "${x}"
