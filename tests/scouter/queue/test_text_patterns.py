"""Patterns in texts that are JSON: what they say is redacted, not how it is escaped."""

import json
import random
from typing import Any

import pytest

from scouter.queue.redaction import Redaction, RedactionRule, Redactor

SECRET = "bob@example.com"
MAIL = r"[\w.]+@[\w.]+\w"
LONG = 10**40


def redactor(*patterns: str) -> Redactor:
    rules = tuple(RedactionRule(action="mask", pattern=pattern) for pattern in patterns)
    return Redactor(Redaction(rules=rules, mask="***"))


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        pytest.param(MAIL, rf'"Dear Bob,\n{SECRET}"', r'"Dear Bob,\n***"', id="after-an-escape"),
        pytest.param("Müller", r'{"n": "M\u00fcller"}', '{"n": "***"}', id="written-as-code"),
        pytest.param("🐍", r'["\ud83d\ude42\ud83d\udc0d"]', '["🙂***"]', id="written-as-pair"),
        pytest.param(r"a/b", r'["a\/b"]', '["***"]', id="escaped-slash"),
        pytest.param(MAIL, rf'{{"\t{SECRET}": 1}}', r'{"\t***": 1}', id="key"),
        pytest.param(r"\d{16}", r'{"card":4111111111111111}', '{"card":"***"}', id="number"),
        pytest.param("^b$", r'["b", "ab", "\n"]', r'["***", "ab", "\n"]', id="ends-of-a-string"),
        pytest.param(r"\bb\b", r'["\nb", "ab"]', r'["\n***", "ab"]', id="ends-of-a-word"),
        pytest.param(
            MAIL,
            json.dumps({"arguments": json.dumps({"to": f"\n{SECRET}"})}),
            json.dumps({"arguments": json.dumps({"to": "\n***"})}),
            id="JSON-in-JSON",
        ),
        pytest.param(
            MAIL,
            rf'{{"a": 1.50, "a":{LONG},  "x": 1e999, "ä": "\u00e4", "to": "\n{SECRET}"}}',
            rf'{{"a": 1.50, "a":{LONG},  "x": 1e999, "ä": "\u00e4", "to": "\n***"}}',
            id="the-rest-as-it-is-written",
        ),
        pytest.param(r'"key": "\w+"', r'{"key": "s", "m": "\n"}', r'{***, "m": "\n"}', id="marks"),
        pytest.param(r"key\W+\w+", r'{"key": "s", "m": "\n"}', r'{"***", "m": "\n"}', id="across"),
        pytest.param(MAIL, f" {{{SECRET}}}", " {***}", id="no-JSON"),
        pytest.param(MAIL, rf'["\x{SECRET}"]', r'["\***"]', id="no-such-escape"),
        pytest.param(MAIL, f'"{SECRET}', '"***', id="no-end"),
        pytest.param(MAIL, "[]", "[]", id="empty"),
    ],
)
def test_patterns_in_json_text_by_hand(pattern: str, text: str, expected: str) -> None:
    assert redactor(pattern).attributes({"1": text, "2": text.encode()}) == {
        "1": expected,
        "2": expected.encode(),
    }


def test_a_context_holds_json_text_as_attributes_do() -> None:
    arguments = json.dumps({"to": f"Müller\n{SECRET}"})
    context = redactor(MAIL, "Müller").context({"calls": [{"arguments": arguments}]})
    assert context == {"calls": [{"arguments": r'{"to": "***\n***"}'}]}


def test_text_without_a_match_is_the_same_object() -> None:
    for text in (r'{"a": "\u00e4\n", "a": 1.0}', '["a"]', '"'):
        assert redactor(MAIL, "^x$").text(text) is text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 200_000 + rf'"\u0062{SECRET[1:]}"' + "]" * 200_000, id="brackets"),
        pytest.param('"' * 200_001 + SECRET, id="quotes"),
        pytest.param('"' + r"\n" * 200_000 + SECRET, id="escapes"),
        pytest.param(rf'["\n{SECRET}"' + ',"a"' * 50_000 + "]", id="strings"),
    ],
)
def test_no_text_is_too_much(text: str) -> None:
    assert "ob@" not in redactor(MAIL).text(text)


def test_json_in_json_is_read_as_deep_as_it_is_found() -> None:
    for level in range(12):
        text = SECRET
        for _ in range(level):
            text = json.dumps([text])
        assert SECRET not in redactor(MAIL).text(text)


def any_json(rng: random.Random, depth: int) -> Any:
    """A value with secrets in some texts, keys and numbers."""
    kind = rng.randrange(8 if depth else 5)
    if kind < 3:
        return "".join(rng.choice([SECRET, "\n", '"', "\\", "ü", "u0062", " x "]) for _ in range(3))
    if kind == 3:
        return rng.choice([4111111111111111, 12, -1, True, None])
    if kind == 4:
        return json.dumps(any_json(rng, 0))
    if kind == 5:
        return [any_json(rng, depth - 1) for _ in range(3)]
    return {f"{i} {any_json(rng, 0)}": any_json(rng, depth - 1) for i in range(3)}


def test_json_text_is_redacted_as_the_value_is() -> None:
    """Text and value by two ways: the text read afterwards is the value redacted."""
    rng, one = random.Random(7), redactor(MAIL, r"\d{16}", "ü+")
    for _ in range(500):
        value = [any_json(rng, 3)]
        text = json.dumps(
            value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2]), sort_keys=True
        )
        assert json.loads(one.text(text)) == one.context(json.loads(text))
