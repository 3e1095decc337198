"""Gates on scenarios that passed, of a run and of a tag, counted by hand."""

from pathlib import Path

import pytest

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import check_gates, check_names
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from tests.support.gate_runs import replay

RUN = replay(
    {
        "all": [{"own": "P"}, {"own": "P"}],
        "once": [{"own": "P"}, {"own": "F"}],
        "record": [{"own": "P"}, {"own": "P"}],
        "unjudged": [{"own": "B"}, {"own": "P"}],
        "nobody": [{"own": "B"}, {"own": "B"}],
    },
    {"desk": [("record", 0, {"polite": "P"}), ("record", 1, {"polite": "E"})]},
    infos={
        "all": {"tags": ["good", "both"]},
        "once": {"tags": ["both"]},
        "record": {"tags": ["both"]},
        "nobody": {"tags": ["open"]},
    },
)
"""Passed: `all` and `unjudged` (its second attempt was not judged for the budget, which decides
nothing); not `once`, and not `record`, whose own tasks passed and whose record errored; `nobody` is
in no count. Checks of the tag `both`: 2 of 2, 1 of 2, 2 of 2 and 1 of 2 of the records; of all one
more, of `unjudged`."""


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ({"min_scenario_pass_rate": 0.5}, [("scenarios passed", 2, 4, True)]),
        ({"min_scenario_pass_rate": 0.51}, [("scenarios passed", 2, 4, False)]),
        (
            {"tags": {"good": 1, "both": 0.3}},
            [("tag 'good'", 1, 1, True), ("tag 'both'", 1, 3, True)],
        ),
        (
            {"tags": {"both": {"min_scenario_pass_rate": 0.4, "min_pass_rate": 0.75}}},
            [("tag 'both'", 1, 3, False), ("tag 'both', all checks", 6, 8, True)],
        ),
        ({"tags": {"open": 0}}, [("tag 'open'", 0, 0, False)]),
        (
            {"min_pass_rate": 0, "tags": {"good": 1}, "min_scenario_pass_rate": 0},
            [
                ("scenarios passed", 2, 4, True),
                ("tag 'good'", 1, 1, True),
                ("pass rate of all checks", 7, 9, True),
            ],
        ),
    ],
)  # fmt: skip
def test_rates(gates: object, expected: list[tuple[str, int, int, bool]]) -> None:
    checks = check_gates(RUN, Gates.model_validate(gates))
    assert [(each.name, each.passed, each.total, each.met) for each in checks] == expected


def test_many_trivial_checks_do_not_hide_scenarios_that_failed() -> None:
    """4 of 12 scenarios fail one of ten checks: 96.7 % of checks pass, 66.7 % of scenarios."""
    good = {f"t{at}": "P" for at in range(10)}
    run = replay({f"s{at}": [good | ({"t0": "F"} if at < 4 else {})] for at in range(12)})
    checks = check_gates(run, Gates(min_scenario_pass_rate=0.9, min_pass_rate=0.9))
    assert [(each.found, each.met) for each in checks] == [
        (pytest.approx(8 / 12), False),
        (pytest.approx(116 / 120), True),
    ]
    assert checks[0].reason == (
        "scenarios passed: 66.7% (8 of 12, 95 % interval 39% to 86%), wanted at least 90.0%"
    )


def test_unknown_tags_are_refused_with_a_question() -> None:
    words = (
        "no scenario has the tag 'god'; the tags are 'good', 'both', 'open'; did you mean 'good'"
    )
    gates = Gates.model_validate({"tags": {"god": 1}})
    with pytest.raises(ConfigError, match=words):
        check_gates(RUN, gates)
    with pytest.raises(ConfigError, match="no scenario has the tag 'god'; the tags are none"):
        check_names(gates, {}, ())


@pytest.mark.parametrize(
    ("gates", "words"),
    [
        ({"aliases": {"dexk": 1}}, "did you mean 'desk'"),
        ({"aliases": {"desk": {"tasks": {"polit": 1}}}}, "did you mean 'polite'"),
        ({"tasks": {"politte": 1}}, "did you mean 'polite'"),
    ],
)
def test_other_unknown_names_ask_as_well(gates: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_gates(RUN, Gates.model_validate(gates))


def test_a_file_with_every_key_is_read_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "gates:\n  min_scenario_pass_rate: 0.9\n  tags: {refund: 1, slow: {min_pass_rate: 0.5}}\n"
        "scenarios:\n- {initial_query: q, tags: [refund, slow], required: true}\n"
        "- {initial_query: r}\n",
        encoding="utf-8",
    )
    found = EvalScenarios.from_path(path)
    assert found.gates is not None
    assert found.gates.tags["refund"].min_scenario_pass_rate == 1
    assert found.gates.tags["slow"].min_pass_rate == 0.5
    assert [(each.tags, each.required) for each in found] == [
        (["refund", "slow"], True),
        ([], False),
    ]
    copy = tmp_path / "copy.json"
    copy.write_text(found.model_dump_json(), encoding="utf-8")
    again = EvalScenarios.from_path(copy)
    assert (again.gates, list(again)) == (found.gates, list(found))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("gates: {tags: {a: 2}}\nscenarios: [{initial_query: q, tags: [a]}]\n", "gates.tags.a"),
        ("gates: {min_scenario_pass_rate: 90}\nscenarios: [{initial_query: q}]\n",
         "gates.min_scenario_pass_rate"),
        ("scenarios: [{initial_query: q, tags: ['']}]\n", r"scenarios\[0\].tags\[0\]"),
        ("scenarios: [{initial_query: q, required: perhaps}]\n", r"scenarios\[0\].required"),
    ],
)  # fmt: skip
def test_wrong_keys_are_refused_by_field(text: str, field: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileFormatError, match=f"field '{field}"):
        EvalScenarios.from_path(path)


def test_a_scenario_without_the_keys_is_what_it_was() -> None:
    """Its document has no new key, and a tag gives a scenario without a name no other name."""
    plain = EvalScenario("q")
    assert {"tags", "required"} & set(plain.model_dump()) == set()
    tagged = EvalScenario("q", tags=["a"], required=True)
    assert tagged.id == plain.id
    assert tagged != plain


def test_results_keep_tags_and_what_is_required(tmp_path: Path) -> None:
    """A gate can be checked on a saved run; one of an earlier version has neither."""
    run = replay({"s": [{"own": "F"}]}, infos={"s": {"tags": ["a"], "required": True}})
    gates = Gates.model_validate({"tags": {"a": 1}})
    run.save(tmp_path / "r.json")
    assert check_gates(ScenarioEvalResults.load(tmp_path / "r.json"), gates) == check_gates(
        run, gates
    )
    text = run.model_dump_json()
    assert '"required_tasks":{}' in text
    for key in (',"tags":["a"],"required":true,"required_tasks":[]', ',"required_tasks":{}'):
        assert key in text
        text = text.replace(key, "")
    (tmp_path / "old.json").write_text(text, encoding="utf-8")
    old = ScenarioEvalResults.load(tmp_path / "old.json")
    assert check_gates(old, Gates()) == ()
