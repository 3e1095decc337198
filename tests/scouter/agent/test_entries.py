"""Provider entries as settings: files, defaults, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from scouter.agent.entries import FILE_VARIABLE, Price, ProviderEntries, ProviderEntry
from scouter.agent.model_judge import ModelJudge
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.judge.prompt import Provider

FILE = """\
providers:
  openai:
    requests_per_minute: 500
    prices: {gpt-4o: {input_per_million: 2.5, output_per_million: 10}}
  local:
    kind: openai
    base_url: http://127.0.0.1:8000/v1/
    keyless: true
    structured_output: text
  house:
    kind: anthropic
    base_url: https://llm.example.com
    key_variable: HOUSE_KEY
    timeout_s: 20
    concurrency: 4
    tokens_per_minute: 100000
"""


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(FILE)
    entries = ProviderEntries.from_file(path)

    assert entries.find("openai") == ProviderEntry(
        name="openai",
        kind="openai",
        requests_per_minute=500,
        prices={"gpt-4o": Price(input_per_million=2.5, output_per_million=10)},
    )
    local, house = entries.find("local"), entries.find("house")
    assert (local.base_url, local.key_variables) == ("http://127.0.0.1:8000/v1", ())
    assert local.key({}) == ""
    assert (house.kind, house.timeout_s, house.key({"HOUSE_KEY": "k"})) == ("anthropic", 20, "k")
    assert entries.names == (
        "anthropic", "gemini", "google", "google_adk", "house", "local", "openai", "vertex"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "kind", "variables"),
    [
        (Provider.OpenAI, "openai", ("OPENAI_API_KEY",)),
        (Provider.Anthropic, "anthropic", ("ANTHROPIC_API_KEY",)),
        (Provider.Gemini, "google", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
        (Provider.Google, "google", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
        (Provider.GoogleAdk, "google", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
        (Provider.Vertex, "vertex", ("GOOGLE_API_KEY",)),
    ],
)
def test_well_known_providers_need_no_file(
    provider: Provider, kind: str, variables: tuple[str, ...]
) -> None:
    entry = ProviderEntries().find(provider)
    assert (entry.kind, entry.key_variables, entry.base_url) == (kind, variables, None)
    for variable in variables:
        assert entry.key({variable: "k", "GEMINI_API_KEY": "k"}) == "k"
    with pytest.raises(ConfigError, match=" or ".join(variables)):
        entry.key({"AZURE_KEY": "k", variables[0]: "  "})


def test_every_provider_that_a_prompt_may_name_is_well_known() -> None:
    assert {str(provider) for provider in Provider} == set(ProviderEntries().names)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("providers: {a: {kind: openai, api_key: sk-1}}", "api_key"),
        ("providers: {a: {}}", "kind"),
        ("providers: {a: {kind: cohere}}", "kind"),
        ("judges: {}", "judges"),
        ("providers: {a: {kind: openai, base_url: 'http://x/v1'}}", "which key goes there"),
        (
            "providers: {a: {kind: openai, base_url: 'ftp://x', keyless: true}}",
            "expected an address",
        ),
        ("providers: {a: {kind: openai, base_url: 'http://u:p@x', keyless: true}}", "without user"),
        (
            "providers: {a: {kind: openai, base_url: 'http://x?key=1', keyless: true}}",
            "without user",
        ),
        ("providers: {a: {kind: openai, keyless: true, key_variable: K}}", "exclude each other"),
        ("providers: {a: {kind: openai, key_variable: 'sk-1234'}}", "key_variable"),
        ("providers: {a: {kind: openai, name: b}}", "an entry's name is its key"),
        ("providers: {openai: {}, OpenAI: {}}", "two entries are called 'openai'"),
        ("providers: {a: {kind: openai, concurrency: 0}}", "concurrency"),
        ("providers: {a: {kind: openai, timeout_s: 0}}", "timeout_s"),
        ("providers: {a: {kind: openai, limit_field: n}}", "limit_field"),
        ("providers: {gemini: {limit_field: max_tokens}}", "for entries of the kind openai"),
        ("providers: {'a b': {kind: openai}}", "name"),
        (
            "providers: {a: {kind: openai, prices: {m: {output_per_million: -1}}}}",
            "per_million",
        ),
    ],
)
def test_what_a_file_must_not_say(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=problem) as raised:
        ProviderEntries.from_file(path)
    assert "sk-1" not in str(raised.value).replace("api_key", "")


def test_where_the_settings_stand(tmp_path: Path) -> None:
    """The file that is named, else the variable's, else that in the user's folder, else none."""
    files: dict[str, Path] = {}
    for name in ("named", "variable", "usual"):
        folder = tmp_path / name / "scouter"
        folder.mkdir(parents=True)
        files[name] = folder / "providers.yaml"
        files[name].write_text(f"providers: {{{name}: {{kind: openai}}}}")
    environ = {FILE_VARIABLE: str(files["variable"]), "XDG_CONFIG_HOME": str(tmp_path / "usual")}

    def found(path: Path | None = None) -> list[str]:
        return list(ProviderEntries.from_settings(path, environ).providers)

    assert found(files["named"]) == ["named"]
    assert found() == ["variable"]
    del environ[FILE_VARIABLE]
    assert found() == ["usual"]
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "nothing")
    assert found() == []
    environ[FILE_VARIABLE] = str(tmp_path / "gone.yaml")
    with pytest.raises(FileFormatError, match=r"gone\.yaml"):
        found()


def test_entries_in_code() -> None:
    entries = [ProviderEntry(name=name, kind="openai") for name in ("a", "b")]
    assert ProviderEntries.of(entries).find("b") is entries[1]
    with pytest.raises(ConfigError, match="two provider entries are called 'a'"):
        ModelJudge([*entries, ProviderEntry(name="a", kind="google")])


SAME_KEY = "{kind: openai, key_variable: OPENAI_API_KEY}"


@pytest.mark.parametrize(
    ("providers", "requested", "found"),
    [
        ("gemini: {concurrency: 1}", "google", "gemini"),
        ("gemini: {concurrency: 1}", "Google_ADK", "gemini"),
        ("google_adk: {key_variable: K}", "gemini", "google_adk"),
        ("gemini: {}\n  google: {}", "google", "google"),
        ("gemini: {}\n  google: {}", "google_adk", "names 'gemini' or 'google', or an entry"),
        ("gemini: {}", "vertex", "names 'gemini', or an entry 'vertex'"),
        ("gemini: {}\n  vertex: {}", "vertex", "vertex"),
        ("vertex: {}", "gemini", "names 'vertex', or an entry 'gemini'"),
        (f"cheap: {SAME_KEY}", "openai", "account of 'cheap' beside"),
        (f"cheap: {SAME_KEY}", "OpenAI", "names 'cheap', or an entry 'openai'"),
        (f"cheap: {SAME_KEY}\n  dear: {SAME_KEY}", "openai", "names 'cheap' or 'dear', or"),
        ("cheap: {kind: openai}", "openai", "account of 'cheap' beside"),
        (f"cheap: {SAME_KEY}\n  openai: {{}}", "openai", "openai"),
        (f"cheap: {SAME_KEY}", "anthropic", "anthropic"),
        ("ours: {kind: google, key_variable: GEMINI_API_KEY}", "google", "names 'ours', or"),
        ("ours: {kind: google, key_variable: GEMINI_API_KEY}", "vertex", "vertex"),
        ("other: {kind: openai, key_variable: ANOTHER_KEY}", "openai", "openai"),
        ("local: {kind: openai, keyless: true}", "openai", "openai"),
    ],
)
def test_no_second_way_to_an_account(
    tmp_path: Path, providers: str, requested: str, found: str
) -> None:
    """A well-known name means the provider's own entry, or is refused beside one for its key."""
    path = tmp_path / "providers.yaml"
    path.write_text(f"providers:\n  {providers}")
    entries = ProviderEntries.from_file(path)
    if " " not in found:
        assert entries.find(requested).name == found
        assert requested.casefold() in entries.names
        return
    with pytest.raises(ConfigError, match=found):
        ModelJudge(entries, environ={"OPENAI_API_KEY": "k", "GOOGLE_API_KEY": "k"}).check(requested)
    assert requested.casefold() not in entries.names


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google", "vertex"])
def test_a_missing_package_names_the_extra(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the vendor's package, seen before any call."""
    import sys

    package = {"openai": "openai", "anthropic": "anthropic"}.get(kind, "google.genai")
    monkeypatch.setitem(sys.modules, package, None)
    for module in [name for name in sys.modules if name.startswith("pydantic_ai.models.")]:
        monkeypatch.delitem(sys.modules, module)
    judge = ModelJudge([ProviderEntry(name="a", kind=kind, keyless=True)])
    extra = kind if kind != "vertex" else "google"
    with pytest.raises(ConfigError, match=rf"'a' needs .* 'scouter-agents\[{extra}\]'"):
        judge.check("a")


def test_an_entry_is_a_value() -> None:
    entry = ProviderEntry(name="a", kind="openai")
    with pytest.raises(ValidationError):
        entry.name = "b"  # pyright: ignore[reportAttributeAccessIssue]
