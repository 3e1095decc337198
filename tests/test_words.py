"""`docs/words.md`: each term once, and no page uses a word that it bans."""

import re
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
