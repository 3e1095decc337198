"""The price table that a user supplies."""

from dataclasses import replace
from pathlib import Path

import pytest

from collector.prices import NO_PRICES, Cost, ModelTokens, PriceTable
from collector.settings.load import load_settings
from scouter.errors import FileFormatError
from scouter.evaluate.spans.costs import Price
from tests.collector.conftest import Start


def written(folder: Path, text: str) -> Path:
    path = folder / "prices.yaml"
    path.write_text(text)
    return path


def test_costs_are_by_the_million(tmp_path: Path) -> None:
    """1,000 tokens at 2.5 and 200 at 10 US dollars: 0.0025 + 0.002."""
    text = "gpt-4o: {input: 2.5, output: 10}\nlocal:\n  input: 0\n  output: 0\n"
    table = PriceTable.read(written(tmp_path, text))
    price = table.of(["gpt-4o-2024-08-06", "gpt-4o"])
    assert price == Price(input=2.5, output=10)
    assert price is not None
    assert price.cost(1000, 200) == pytest.approx(0.0045)
    assert table.of(["local", "gpt-4o"]) == Price(input=0, output=0)
    assert table.of(["nobody"]) is table.of([]) is PriceTable.read(None).of(["gpt-4o"]) is None


LISTED = ModelTokens(
    models=("gpt-4o-2024-08-06", "gpt-4o"), calls=2, input_tokens=1000, output_tokens=200,
    cached_tokens=400, written_tokens=100, cost_usd=0.004,
)  # fmt: skip
UNPRICED = ModelTokens(
    models=("ours",), calls=3, input_tokens=1000, output_tokens=200, cost_usd=1, unpriced_calls=2
)
UNCOUNTED = UNPRICED._replace(models=("mute",), uncounted_calls=2)
HEARD = UNPRICED._replace(audio_input_tokens=900)
SPEAKING = PriceTable({"ours": Price(input=1, output=10, audio_input=3)})
OWN = PriceTable(
    {
        "ours": Price(input=1, output=10),
        "mute": Price(input=1, output=10),
        "gpt-4o": Price(input=2, output=10, cache_read=1, cache_write=3),
    }
)


@pytest.mark.parametrize(
    ("table", "groups", "cost"),
    [
        (NO_PRICES, [], Cost(usd=None)),
        (NO_PRICES, [LISTED, LISTED], Cost(usd=0.008)),
        (
            NO_PRICES, [LISTED, UNPRICED],
            Cost(usd=None, unpriced_calls=2, unpriced_models=("ours",)),
        ),
        # 500 plain at 2, 400 at 1, 100 at 3, and 200 written at 10 millionths
        (OWN, [LISTED], Cost(usd=0.0037)),
        (OWN, [UNPRICED, UNPRICED], Cost(usd=0.006)),
        (
            OWN, [UNPRICED, UNCOUNTED],
            Cost(usd=None, unpriced_calls=2, unpriced_models=("mute (tokens not reported)",)),
        ),
        # 100 at 1, 900 of sound at 3, 200 at 10 millionths
        (SPEAKING, [HEARD], Cost(usd=0.0048)),
        (OWN, [HEARD], Cost(usd=None, unpriced_calls=3, unpriced_models=("ours (sound)",))),
        (
            NO_PRICES, [UNPRICED._replace(models=())],
            Cost(usd=None, unpriced_calls=2, unpriced_models=("(no model named)",)),
        ),
    ],
)  # fmt: skip
def test_a_sum_with_an_unknown_call_is_unknown(
    table: PriceTable, groups: list[ModelTokens], cost: Cost
) -> None:
    found = table.total(groups)
    assert replace(found, usd=None) == replace(cost, usd=None)
    assert found.usd == (None if cost.usd is None else pytest.approx(cost.usd))


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("a: {input: 1, output: 2}\nb: {input: 1}\n", 2, "b.output"),
        ("a:\n  input: 1\n  output: -2\n", 3, "a.output"),
        ("a:\n  input: cheap\n  output: 2\n", 2, "a.input"),
        ("a:\n  input: 1\n  output: 2\n  cached: 1\n", 4, "a.cached"),
        ("a: {input: 1, output: 2, cache_read: -1}\n", 1, "a.cache_read"),
        ("a: {input: .nan, output: 2}\n", 1, None),
        ("a: 3\n", 1, "a"),
        ("- a\n", 1, None),
        ("a: [1\n", 2, None),
    ],
)
def test_an_error_names_its_place(tmp_path: Path, text: str, line: int, field: str | None) -> None:
    with pytest.raises(FileFormatError) as caught:
        PriceTable.read(written(tmp_path, text))
    assert caught.value.path == str(tmp_path / "prices.yaml")
    assert (caught.value.line, caught.value.field) == (line, field)


def test_a_collector_does_not_start_with_a_wrong_one(start: Start, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"prices\.yaml, line 1, field 'a'"):
        start(price_file=written(tmp_path, "a: 3\n"))
    with pytest.raises(FileFormatError, match="missing"):
        start(price_file=tmp_path / "missing.yaml")
    assert load_settings({}).price_file is None
