"""`docs/providers.md`: its examples run, its tables are those of the code."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from scouter.agent.entries import KEY_VARIABLES, ProviderEntries, ProviderEntry
from scouter.mock.llm_server import LLMTestServer

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/providers.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def rows(first: str) -> list[list[str]]:
    """The table whose first heading this is, without its code marks."""
    table = PAGE.split(f"| {first} |")[1].split("\n\n")[0]
    return [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        for line in table.splitlines()[2:]
    ]


def test_the_first_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    with LLMTestServer({"score": 4, "reason": "friendly"}):
        exec(compile(blocks("python")[0], "providers.md", "exec"), {})  # noqa: S102 — the page's own
    assert capsys.readouterr().out == "passed\n"


def test_the_example_with_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks("python")[2], "providers.md", "exec"), {})  # noqa: S102 — the page's own
    assert capsys.readouterr().out == "passed 2\n"


def test_the_example_with_a_cache(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    with LLMTestServer({"score": 4, "reason": "it is"}) as server:
        exec(compile(blocks("python")[1], "providers.md", "exec"), {})  # noqa: S102 — the page's own
    first, second = capsys.readouterr().out.splitlines()
    assert "calls=1, cached=0" in first
    assert "calls=0, cached=1, input_tokens=0, output_tokens=0, cost_usd=0.0" in second
    assert server.calls == 1


def test_the_settings_files() -> None:
    plain, bounded = (
        ProviderEntries.model_validate(yaml.safe_load(text)) for text in blocks("yaml")
    )
    assert list(plain.providers) == ["openai", "house", "local"]
    assert (bounded.daily_budget_usd, bounded.daily_budgets_usd) == (20, {"openai": 5})


def test_the_fields_of_an_entry() -> None:
    table = {row[0]: row[1] for row in rows("field")}
    fields = {name: field for name, field in ProviderEntry.model_fields.items() if name != "name"}
    assert list(table) == list(fields)
    for name, field in fields.items():
        if table[name] not in {"", "none", "the vendor's"}:
            default = field.default
            assert table[name] == (
                f"{default:g}" if isinstance(default, float) else str(default).lower()
            )


def test_providers_extras_and_variables() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    listed: set[str] = set()
    for names, extra, variables in rows("provider"):
        assert extra.removeprefix("scouter-agents[").removesuffix("]") in extras
        for name in names.split(", "):
            listed.add(name)
            kind = ProviderEntries().find(name).kind
            assert tuple(variables.split(", else ")) == KEY_VARIABLES[kind]
    assert listed == set(ProviderEntries().names)
