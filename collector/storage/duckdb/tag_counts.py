"""Tags of records and evaluations: as a filter, and counted beside other values."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from collector.storage.duckdb.evaluations import tag_texts

TAGS: Final = "tags"
"""Name of the counts whose values are texts of `tag_sets_sql`."""


def tag_conditions(tags: Iterable[tuple[str, str]]) -> tuple[str, list[object]]:
    """A filter by tags in the column `tags`, as SQL, and its values.

    A quote inside a text is escaped: behind a comma or a brace stands one that begins a key.
    """
    where, given = ["true"], list[object]()
    for pair in tags:
        texts = [before + text for text in tag_texts(*pair) for before in "{,"]
        where.append(f"({' OR '.join(['contains(tags, ?)'] * len(texts))})")
        given += texts
    return " AND ".join(where), given


def tag_sets_sql(key: str, rows: str, condition: str = "true") -> str:
    """A query for all tags of an item together: two of its rows may share some.

    Args:
        key: The column that tells items apart.
        rows: A table with that column and `tags`.
        condition: SQL that is true of the rows that count.
    """
    sets = "to_json(list_sort(list(DISTINCT tags)))::VARCHAR AS value"
    has_some = f"tags <> '{{}}' AND {condition}"
    return f"SELECT {key}, {sets} FROM {rows} WHERE {has_some} GROUP BY {key}"  # noqa: S608 our own words


def counts_by_name(rows: Sequence[tuple[str, str, int]]) -> Mapping[str, Mapping[str, int]]:
    """Counts by name and value; those under `TAGS` by each tag that their texts hold."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, value, n in rows:
        if name == TAGS:
            for tag in _tags_of(json.loads(value)):
                counts["tag"][tag] += n
        elif value:
            counts[name][value] += n
    return counts


def _tags_of(texts: Iterable[str]) -> set[str]:
    """Tags as a filter takes them."""
    pairs = (pair for text in texts for pair in json.loads(text or "{}").items())
    return {f"{key}={value}" for key, value in pairs if key and "=" not in key}
