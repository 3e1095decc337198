"""Provider entries: which service, at which address, with whose key, how fast, for how much.

A profile names an entry and knows no more of it. Entries come from the user's settings file or
from code; the names of `Provider` are entries by themselves. A key stands in no entry: an entry
names the environment variable that holds it.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    model_validator,
)

from scouter.errors import ConfigError
from scouter.evaluate.files.read import load_model
from scouter.evaluate.judge.prompt import Provider

Kind: TypeAlias = Literal["openai", "anthropic", "google", "vertex"]
StructuredOutput: TypeAlias = Literal["auto", "schema", "tool", "text"]
LimitField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]

FILE_VARIABLE: Final = "SCOUTER_PROVIDERS"
"""Names the settings file with the entries."""
KEY_VARIABLES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "vertex": ("GOOGLE_API_KEY",),
}
"""Environment variables that hold each vendor's key; the first one that is set counts."""
_ADDRESS_VARIABLES: Final[Mapping[Kind, str]] = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "vertex": "GOOGLE_VERTEX_BASE_URL",
}
"""Environment variables from which the vendors' own clients read an address."""

_WELL_KNOWN: Final[Mapping[str, Kind]] = {
    Provider.OpenAI: "openai",
    Provider.Anthropic: "anthropic",
    Provider.Gemini: "google",
    Provider.Google: "google",
    Provider.GoogleAdk: "google",
    Provider.Vertex: "vertex",
}
_MILLION: Final = 1_000_000


def _checked_url(value: str) -> str:
    """Refuse what is no address, and what would carry a secret into a file."""
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("expected an address such as https://llm.example.com/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            "expected an address without user, password, query and fragment; a key goes into the "
            "environment variable that key_variable names"
        )
    return value.rstrip("/")


Address: TypeAlias = Annotated[str, Field(max_length=2048), AfterValidator(_checked_url)]
Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
Usd: TypeAlias = Annotated[FiniteFloat, Field(ge=0)]
Seconds: TypeAlias = Annotated[FiniteFloat, Field(gt=0)]


class UnknownEntryError(ConfigError):
    """A prompt names a provider entry that there is not."""


class UnsetKeyError(ConfigError):
    """The environment does not hold a provider entry's key."""


class Price(BaseModel):
    """The price of a model, in US dollars for a million tokens.

    Args:
        input_per_million: Tokens of the input.
        output_per_million: Tokens answered, those of reasoning included.
        cached_input_per_million: Tokens of the input that the provider had in its cache; the
            price of others if not given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    input_per_million: Usd
    output_per_million: Usd
    cached_input_per_million: Usd | None = None

    def cost_usd(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """The price of one call.

        Args:
            input_tokens: All tokens of the input, cached ones included.
            output_tokens: Tokens answered.
            cached_tokens: Those of the input that came from the provider's cache.
        """
        cached_price = self.cached_input_per_million
        cached_price = self.input_per_million if cached_price is None else cached_price
        total = (
            (input_tokens - cached_tokens) * self.input_per_million
            + cached_tokens * cached_price
            + output_tokens * self.output_per_million
        )
        return total / _MILLION


class ProviderEntry(BaseModel):
    """One provider that judges may ask.

    Args:
        name: Name of the entry in prompts.
        kind: The protocol: `openai` (and any server that speaks it), `anthropic`, `google` (the
            Gemini API) or `vertex` (Google Cloud, by API key).
        base_url: Another address than the vendor's own.
        key_variable: The environment variable with the key; the vendor's usual one if not given.
            An entry with an address of its own has to name it, so that no vendor's key goes to
            somebody else by oversight.
        keyless: True for a server that wants no key.
        timeout_s: Longest time for one answer.
        concurrency: Most questions at a time.
        requests_per_minute: Most questions started in any 60 seconds; no bound if not given.
        tokens_per_minute: Most tokens, of input and output, in any 60 seconds; the same.
        max_pause_s: The longest pause that the provider may ask for (`Retry-After`) without its
            questions failing at once.
        structured_output: The way to ask for an answer of a wanted form: `schema` (the provider
            holds the model to a JSON schema), `tool` (the answer is a tool's input), `text` (the
            schema stands in the prompt); `auto` takes the first that the model can.
        limit_field: Name of the limit of an answer at a server of OpenAI's protocol. If not given,
            it is `max_completion_tokens` at the vendor's address, and `max_tokens` at any other.
        prices: By the model's name, its price.
        daily_budget_usd: Most that may be spent on it in a day (UTC); no bound if not given.

    Raises:
        pydantic.ValidationError: A field is unknown or wrong.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: Name
    kind: Kind
    base_url: Address | None = None
    key_variable: Variable | None = None
    keyless: bool = False
    timeout_s: Seconds = 60.0
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 32
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    max_pause_s: Seconds = 120.0
    structured_output: StructuredOutput = "auto"
    limit_field: LimitField | None = None
    prices: dict[str, Price] = Field(default_factory=dict[str, Price])
    daily_budget_usd: Usd | None = None

    @model_validator(mode="after")
    def _says_whose_key(self) -> Self:
        if self.keyless and self.key_variable is not None:
            raise ValueError("keyless: true and a key_variable exclude each other")
        if self.base_url and not (self.keyless or self.key_variable):
            raise ValueError(
                "an entry with a base_url has to say which key goes there: expected "
                "key_variable: NAME_OF_AN_ENVIRONMENT_VARIABLE, or keyless: true"
            )
        return self

    @model_validator(mode="after")
    def _has_one_name_for_the_limit(self) -> Self:
        if self.limit_field is not None and self.kind != "openai":
            raise ValueError(
                f"limit_field is for entries of the kind openai; the protocol {self.kind} has one "
                "name for the limit of an answer"
            )
        return self

    @property
    def sent_limit(self) -> LimitField:
        """The name of the answer's limit in a request by OpenAI's protocol."""
        return self.limit_field or ("max_tokens" if self.base_url else "max_completion_tokens")

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables that may hold the key, in the order in which they are looked at."""
        if self.keyless:
            return ()
        return (self.key_variable,) if self.key_variable else KEY_VARIABLES[self.kind]

    def key(self, environ: Mapping[str, str] = os.environ) -> str:
        """Read the key from the environment; "" where none is wanted.

        Raises:
            UnsetKeyError: It is not set; names entry and variables.
            ConfigError: No key can look like that; names entry and variable, never the value.
        """
        variables = self.key_variables
        for variable in variables:
            found = environ.get(variable, "").strip()
            if found:
                # An HTTP client would show the value in its error.
                if not (found.isascii() and found.isprintable() and " " not in found):
                    raise ConfigError(
                        f"provider entry {self.name!r}: the environment variable {variable} holds "
                        "characters that are in no key"
                    )
                return found
        if variables:
            names = " or ".join(variables)
            raise UnsetKeyError(
                f"provider entry {self.name!r} has no key: set the environment variable {names}"
            )
        return ""

    @property
    def identity(self) -> str:
        """Everything that answers depend on, as a text: name, protocol, address, form.

        Of all other fields, such as limits and prices, none changes an answer. An entry without an
        address has that of the environment, where the vendor's client finds one there.
        """
        address = self.base_url or os.environ.get(_ADDRESS_VARIABLES[self.kind], "")
        parts = self.name, self.kind, address, self.structured_output
        return json.dumps(parts)

    def price_of(self, model: str) -> Price:
        """The price of a model, for a budget in dollars.

        Raises:
            ConfigError: It has none; names entry and model, and says what to write.
        """
        price = self.prices.get(model)
        if price is None:
            raise ConfigError(
                f"provider entry {self.name!r} has no price for the model {model!r}, and a budget "
                f"in dollars needs one: in the file of entries, give it prices: {{{model}: "
                "{input_per_million: …, output_per_million: …}}"
            )
        return price

    def cost_usd(
        self, model: str, input_tokens: int, output_tokens: int, cached_tokens: int = 0
    ) -> float | None:
        """The price of one call; None for a model without a price."""
        price = self.prices.get(model)
        return None if price is None else price.cost_usd(input_tokens, output_tokens, cached_tokens)


def _named(data: object) -> object:
    """Put each entry's name into it, and the kind that a well-known name stands for."""
    if not isinstance(data, Mapping):
        return data
    entries: dict[str, object] = {}
    for name, fields in cast("Mapping[object, object]", data).items():
        key = _normal(str(name))
        if key in entries:
            raise ValueError(f"two entries are called {key!r}")
        if fields is None:
            fields = {}
        if isinstance(fields, Mapping):
            given = cast("Mapping[str, object]", fields)
            if "name" in given:
                raise ValueError(f"{name}: an entry's name is its key; expected no field 'name'")
            kind = {"kind": _WELL_KNOWN[key]} if key in _WELL_KNOWN else {}
            fields = {**kind, **given, "name": key}
        entries[key] = fields
    return entries


def _normal(name: str) -> str:
    return name.casefold() if name.casefold() in _WELL_KNOWN else name


class ProviderEntries(BaseModel):
    """The entries of a settings file, beside the well-known ones.

    Args:
        providers: By name, the fields of each entry. A well-known name (`openai`, `anthropic`,
            `gemini`, `google`, `google_adk`, `vertex`) needs no `kind`.
        daily_budget_usd: Most that may be spent on all entries together in a day (UTC); no bound
            if not given.

    Raises:
        pydantic.ValidationError: A field is unknown or wrong.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    providers: dict[str, ProviderEntry] = Field(default_factory=dict[str, ProviderEntry])
    daily_budget_usd: Usd | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        given = cast("Mapping[str, object]", data)
        if "providers" not in given:
            return given
        return {**given, "providers": _named(given["providers"])}

    @classmethod
    def of(cls, entries: Iterable[ProviderEntry]) -> Self:
        """Gather entries that were made in code.

        Raises:
            ConfigError: Two have one name.
        """
        found: dict[str, ProviderEntry] = {}
        for entry in entries:
            if found.setdefault(_normal(entry.name), entry) is not entry:
                raise ConfigError(f"two provider entries are called {entry.name!r}")
        return cls.model_construct(providers=found)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a settings file, YAML or JSON.

        Raises:
            FileFormatError: Names the file, line and field.
        """
        return load_model(path, cls)

    @classmethod
    def from_settings(
        cls, path: str | Path | None = None, environ: Mapping[str, str] = os.environ
    ) -> Self:
        """Read the settings file that is meant: the given one, or that of this user.

        Args:
            path: A file; without it the one that `SCOUTER_PROVIDERS` names, else
                `scouter/providers.yaml` in the user's folder for settings (`XDG_CONFIG_HOME`,
                `~/.config`), else none, which leaves the well-known entries.
            environ: Holds the variables.

        Raises:
            FileFormatError: The file is wrong, or is not there although it was named.
        """
        named = path or environ.get(FILE_VARIABLE)
        if named:
            return cls.from_file(named)
        folder = environ.get("XDG_CONFIG_HOME")
        base = Path(folder) if folder else Path.home() / ".config"
        usual = base / "scouter" / "providers.yaml"
        return cls.from_file(usual) if usual.is_file() else cls()

    @property
    def daily_budgets_usd(self) -> dict[str, float]:
        """By entry, the most that may be spent on it in a day."""
        return {
            entry.name: entry.daily_budget_usd
            for entry in self.providers.values()
            if entry.daily_budget_usd is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a prompt may use, sorted."""
        open_names = (str(name) for name in _WELL_KNOWN if not self._instead_of(name))
        return tuple(sorted({*self.providers, *open_names}))

    def find(self, name: str) -> ProviderEntry:
        """The entry of a name.

        A well-known name without an entry of its own stands for the one entry under another name of
        the same provider (`google` for `gemini`), so that it has the same limits and budget.

        Raises:
            UnknownEntryError: There is none; lists those there are.
            ConfigError: It is a well-known name, and would be a second way to an account that has
                entries of its own; names those.
        """
        key = _normal(name)
        found = self.providers.get(key)
        if found is not None:
            return found
        kind = _WELL_KNOWN.get(key)
        if kind is None:
            known = ", ".join(self.names)
            raise UnknownEntryError(
                f"there is no provider entry {name!r}; there are {known}. Others stand in the file "
                f"that --providers or {FILE_VARIABLE} names, under `providers:`"
            )
        aliases = self._aliases(key)
        if len(aliases) == 1:
            return aliases[0]
        instead = self._instead_of(key)
        if instead:
            raise ConfigError(
                f"the provider {name!r} has no entry of its own, and without one it would use the "
                f"account of {' and '.join(instead)} beside their limits and budgets: expected a "
                f"prompt that names {' or '.join(instead)}, or an entry {key!r} in the file of "
                "entries"
            )
        return ProviderEntry(name=key, kind=kind)

    def _aliases(self, key: str) -> list[ProviderEntry]:
        """Entries under other well-known names of the same provider."""
        same = [name for name, kind in _WELL_KNOWN.items() if kind == _WELL_KNOWN[key]]
        return [self.providers[name] for name in same if name in self.providers]

    def _instead_of(self, key: str) -> list[str]:
        """Names of the entries that close a well-known one, which would be a way round them."""
        aliases = self._aliases(key)
        if key in self.providers or len(aliases) == 1:
            return []
        variables = set(KEY_VARIABLES[_WELL_KNOWN[key]])
        return [
            repr(name)
            for name, entry in self.providers.items()
            if entry in aliases or variables.intersection(entry.key_variables)
        ]


__all__ = ("FILE_VARIABLE", "Kind", "Price", "ProviderEntries", "ProviderEntry")
