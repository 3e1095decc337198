"""Versions of the service behind a profile's records.

The rollups know each version's hours and how many results it has; the evaluations of an hour know
the moment.
"""

from dataclasses import dataclass
from typing import Final

from collector.store.evaluation_queries import PROFILE
from collector.store.reads import Reads
from collector.store.totals import HOUR_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """A version of the service behind a profile's records."""

    version: str
    first_ns: int
    """Time at which the first of its records was evaluated; where many versions began later, the
    beginning of that hour."""
    last_ns: int
    """Likewise of the last one, or the end of that hour."""
    records: int
    """In each hour results of the task that has the most."""


_NAMES: Final = tuple(VersionRow.__dataclass_fields__)
_EXACT: Final = 5
"""Versions of which the moments are found: the newest."""
_MOST: Final = 20_000
"""Records of a profile behind which no version is looked for: a comparison reads so far."""
_OWN: Final = f"e.space = $1::TEXT AND {PROFILE.format('$2::TEXT')}"
_HOURS: Final = f"""
    SELECT version, min(hour_ns), max(hour_ns), sum(n)::BIGINT FROM (
        SELECT version, hour_ns, max(n) AS n, coalesce(sum(max(n)) OVER (
            ORDER BY hour_ns DESC GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS newer
        FROM (
            SELECT e.service_version AS version, e.profile_uid, e.task_id, e.hour_ns,
                sum(e.n) AS n
            FROM rollups e WHERE {_OWN}
            GROUP BY e.service_version, e.profile_uid, e.task_id, e.hour_ns HAVING sum(e.n) > 0
        ) tasks GROUP BY version, profile_uid, hour_ns
    ) hours GROUP BY version HAVING min(newer) < {_MOST}
"""
_IN_HOUR: Final = f"""
    FROM evaluations e WHERE {_OWN} AND e.service_version = $3::TEXT
      AND e.evaluated_ns BETWEEN {{}}::BIGINT AND {{}}::BIGINT + {HOUR_NS - 1}
"""
_MOMENTS: Final = f"""
    SELECT (SELECT min(e.evaluated_ns) {_IN_HOUR.format("$4", "$4")}),
        (SELECT max(e.evaluated_ns) {_IN_HOUR.format("$5", "$5")})
"""
_OF_SPANS: Final = f"""
    WITH e AS (
        SELECT e.uid_hash, e.trace_id, e.service_version, e.evaluated_ns FROM evaluations e
        WHERE {_OWN} ORDER BY e.seq DESC LIMIT $3::BIGINT
    ), s AS (
        SELECT s.trace_id, min(s.service_version) AS version FROM spans s
        WHERE s.space = $1::TEXT AND s.service_version <> ''
          AND s.trace_id IN (SELECT trace_id FROM e WHERE service_version = '')
        GROUP BY s.trace_id
    )
    SELECT s.version, min(e.evaluated_ns), max(e.evaluated_ns), count(DISTINCT e.uid_hash)
    FROM e JOIN s ON s.trace_id = e.trace_id WHERE e.service_version = '' GROUP BY s.version
"""


class VersionReads(Reads):
    """Reads of versions."""

    def versions(self, space: str, profile: str) -> list[VersionRow]:
        """Versions of the service behind the newest records of a profile, the newest first.

        These are 20,000, and those of the same hour. An evaluation that looked at no spans may not
        know its version; a span of its trace does. What nobody knows the version of is left out.

        Cost: the rollups of the space, and the evaluations of at most ten hours; where some do not
        know their version, the newest 20,000 evaluations of the profile, and all between them.
        """
        of = space, profile
        hours = {row[0]: row[1:] for row in self.read(_HOURS, of)}
        unknown = hours.pop("", None)
        found: dict[str, VersionRow] = {}
        for place, (version, (first_ns, last_ns, records)) in enumerate(
            sorted(hours.items(), key=lambda each: -each[1][0])
        ):
            moments = [(None, None)]
            if place < _EXACT:
                moments = self.read(_MOMENTS, [*of, version, first_ns, last_ns])
            ((first, last),) = moments
            found[version] = VersionRow(
                version=version,
                first_ns=first_ns if first is None else first,
                last_ns=last_ns + HOUR_NS - 1 if last is None else last,
                records=records,
            )
        for row in self.read(_OF_SPANS, [*of, _MOST]) if unknown else ():
            reported = VersionRow(**dict(zip(_NAMES, row, strict=True)))
            known = found.get(reported.version)
            found[reported.version] = reported if known is None else _joined(known, reported)
        return sorted(found.values(), key=lambda row: (-row.first_ns, row.version))


def _joined(row: VersionRow, reported: VersionRow) -> VersionRow:
    """One version of both sources."""
    return VersionRow(
        version=row.version,
        first_ns=min(row.first_ns, reported.first_ns),
        last_ns=max(row.last_ns, reported.last_ns),
        records=row.records + reported.records,
    )
