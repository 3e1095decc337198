"""`docs/words.md`: each term once, and no page uses a word that it bans."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_docs import DOCS, PAGES, ROOT, without_code

WORDS = (DOCS / "words.md").read_text(encoding="utf-8")
TERMS, BANNED = WORDS.split("## Words that the documents do not use\n")
ROW = re.compile(r"^\| (?!:-)(.+?) \| (.+?) \|(?: (.*?) ?\|)?$", re.MULTILINE)
terms = [row for row in ROW.findall(TERMS) if row[0] != "term"]
banned = [row for row in ROW.findall(BANNED) if row[0] != "not"]
HISTORY = (ROOT / "CHANGELOG.md", DOCS / "words.md")


def prose(page: Path) -> str:
    """A page without its code, links' targets, and names in code marks."""
    text = without_code(page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def test_every_term_is_defined_once() -> None:
    names = [name for name, *_ in terms]
    assert len(names) > 60
    assert len(set(names)) == len(names)
    assert all(meaning for _, meaning, _ in terms)


def test_no_term_is_banned() -> None:
    assert not {name for name, *_ in terms} & {name for name, *_ in banned}


@pytest.mark.parametrize(("word", "unless"), [(row[0], row[2]) for row in banned])
def test_no_page_uses_a_banned_word(word: str, unless: str) -> None:
    """Outside of code; other systems' pages may use those systems' words."""
    found = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in PAGES
        if page not in HISTORY and not ("other system" in unless and "from_" in page.name)
        for line in prose(page).splitlines()
        if re.search(rf"\b{word}s?\b", line, re.IGNORECASE)
        and not ("guardrail" in unless and "guardrail" in line.lower())
    ]
    assert not found, "\n".join(found)


# --- names in code ---

STAY = {
    "scouter/agent/calibration/calibration.py": {"without_verdict"},  # a field of saved files
    # Public names, and a judge's answer `{"verdict": …}`.
    "scouter/evaluate/journey/asking.py": {"_VERDICT", "is_verdict", "read_verdict", "verdict"},
    "scouter/evaluate/journey/wxo/profile.py": {"verdicts"},
    "scouter/evaluate/report/evaluator.py": {"ItemVerdict"},
    "scouter/evaluate/tasks/judge.py": {"_verdict", "verdict"},
    "scouter/mock/noisy_judge.py": {"verdict"},
    # A guardrail has a verdict.
    "scouter/evaluate/responses/read.py": {"strictest_verdict", "verdict"},
    "scouter/evaluate/tasks/agent.py": {
        "GuardrailVerdict", "GuardrailVerdictAssertion", "guardrail_verdict", "verdict",
    },
    "scouter/model/agent_work.py": {"verdict"},
    "scouter/model/genai/work.py": {"VERDICT"},
}  # fmt: skip
"""Names with the word verdict, by module."""


def names_of(source: str) -> Iterator[str]:
    """Every name that a source defines: classes, functions, parameters, fields and variables."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_no_other_name_says_verdict() -> None:
    """An outcome, an evaluation and a decision are three things, each with its own word."""
    sources = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for package in ("scouter", "collector")
        for path in (ROOT / package).rglob("*.py")
    }
    named = {
        module: {name for name in names_of(source) if "verdict" in name.lower()}
        for module, source in sources.items()
        if "verdict" in source.lower()
    }
    assert {module: names for module, names in named.items() if names} == STAY
    assert not [module for module in sources if "verdict" in Path(module).name]


def test_every_kind_of_name_is_seen() -> None:
    source = "class A:\n    b: int\ndef c(d, *, e):\n    f = g = 1\n    for h in i: pass"
    assert sorted(names_of(source)) == list("Abcdefgh")
