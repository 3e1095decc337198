"""A message about an alert, before a channel gives it its form.

It holds names and counts, and no text that an agent wrote.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from collector.alerts.alert import (
    Alert,
    DriftAlert,
    DriftAlertState,
    Figures,
    bad_word,
    changed_words,
    fell_with,
    headline,
    proof,
)
from collector.alerts.evidence import error_of, examples_of, explained
from collector.store.rows import EvaluationRow
from collector.store.store import Store
from scouter.drift.series.series import Kind

TEST_ID: Final = "test"
"""Id of the alert in test messages."""
_EXPLAINED: Final = 3
"""Traits that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A record that failed."""

    name: str
    url: str
    """Page that shows it; empty where the collector's address is not known."""
    order: str
    """Command that shows it."""
    reason: str = ""
    """Why its task erred, such as `missing_path`; empty where it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An alert fires, or is over."""

    alert: Alert
    cause: str = ""
    """Traffic or behaviour, in words; empty where too little is known."""
    explained_by: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    url: str = ""
    """Page of the alert; empty where the collector's address is not known."""

    @property
    def changed(self) -> list[str]:
        """Changes of the records' setup just before the fall, in words."""
        return changed_words(self.alert)

    @property
    def is_resolved(self) -> bool:
        """True if the alert is over."""
        return not self.alert.is_open

    @property
    def dedup_key(self) -> str:
        """The same for all messages about one alert."""
        return f"scouter-{self.alert.alert_id}"

    @property
    def delivery_key(self) -> str:
        """The same for one message that comes twice."""
        return f"{self.dedup_key}-{self.alert.state.value}-{self.alert.changed_ns}"

    @property
    def severity(self) -> str:
        """`critical` where results got worse, `warning` where they are missing."""
        return "critical" if self.alert.kind in (Kind.PASS, Kind.SCORE) else "warning"

    @property
    def opened(self) -> Figures | None:
        """Figures of the fall as it was proven; None of an alert about trouble."""
        return self.alert.opened if isinstance(self.alert, DriftAlert) else None

    @property
    def title(self) -> str:
        """One sentence: task, version and time of the fall, and its state where it does not fire.

        A test says that it is one.
        """
        test = "[test] " if self.alert.alert_id == TEST_ID else ""
        state = self.alert.state
        now = "" if state is DriftAlertState.FIRING else f"{state.value}: "
        return f"{test}{now}{headline(self.alert)}"

    @property
    def evidence(self) -> str:
        """Counts, the healthy count and the chance, or the trouble found.

        Of an alert that has changed since it was opened, the reason comes first.
        """
        proven, note = proof(self.alert), self.alert.note
        if self.is_resolved:
            return f"{note}; it was: {proven}"
        return f"{note}; {proven}" if note else proven

    @property
    def fell_with(self) -> str:
        """Falls together with the headline, in words; empty for none."""
        return fell_with(self.alert)

    def lines(
        self,
        text: Callable[[str], str] = str,
        link: Callable[[str, str], str] = "{} {}".format,
    ) -> Iterator[str]:
        """The message below its title, the most important line first.

        Args:
            text: Makes a text safe.
            link: Joins a name and an address, after that.
        """
        yield text(self.evidence)
        if self.fell_with:
            yield text(f"fell with it: {self.fell_with}")
        for each in self.changed:
            yield text(f"changed just before: {each}")
        if self.cause:
            yield text(self.cause)
        for each in self.explained_by:
            yield text(f"explained by {each}")
        for each in self.examples:
            word = text(bad_word(self.alert, each.reason))
            if each.url:
                yield f"{word}: {link(text(each.name), text(each.url))}"
            else:
                yield f"{word}: {text(f'{each.name}  {each.order}')}"
        if self.opened is not None:
            yield text(f"compared with {self.opened.against}")
        if self.url:
            yield link("this alert", text(self.url))
        yield text(f"scouter alerts show {self.alert.alert_id}")
        if not self.is_resolved:
            yield text(f"scouter alerts ack {self.alert.alert_id}  (you look after it)")


def notice_of(store: Store, alert: Alert, public_url: str = "") -> Notice:
    """Put a message together.

    Args:
        store: Has the failed records, and the results that explain the fall.
        alert: As it stands.
        public_url: Address at which people see the collector's page, without a slash at its end;
            empty for no links.

    Raises:
        TransientError: The store cannot be read now.
    """
    url = f"{public_url}/alerts/{alert.alert_id}" if public_url else ""
    if not alert.is_open:
        return Notice(alert=alert, url=url)
    found = explained(store, alert)
    origin = None if found is None else found.origin
    guilty = () if origin is None else origin.guilty[:_EXPLAINED]
    return Notice(
        alert=alert,
        cause="" if origin is None else origin.sentence,
        explained_by=tuple(each.sentence() for each in guilty),
        examples=tuple(_example(alert, each, public_url) for each in examples_of(store, alert)),
        url=url,
    )


def trial_notice(at_ns: int, *, is_resolved: bool, public_url: str = "") -> Notice:
    """Make a message that says it is a test; its figures are made up."""
    state = DriftAlertState.RESOLVED if is_resolved else DriftAlertState.FIRING
    figures = Figures(
        since_ns=at_ns, records=400, failed=118, evidence=1e4, healthy=0.91, lower=0.9,
        against="nothing: this is a test message",
    )  # fmt: skip
    alert = DriftAlert(
        alert_id=TEST_ID, space="test", profile_uid="test", profile_name="test", alias="test",
        profile_digest="", task="test", kind=Kind.PASS, service="", environment="", version="",
        state=state, opened_ns=at_ns, changed_ns=at_ns, opened=figures, examples=(),
        note="the test is over" if is_resolved else "",
    )  # fmt: skip
    return Notice(alert=alert, url=f"{public_url}/alerts" if public_url else "")


def _example(alert: Alert, row: EvaluationRow, public_url: str) -> Example:
    kind, name = ("trace", row.trace_id) if row.trace_id else ("record", row.record_uid)
    return Example(
        name=row.record_id or row.record_uid,
        url=f"{public_url}/{kind}s/{quote(name, safe='')}" if public_url else "",
        order=f"scouter results {kind} {name}",
        reason=error_of(row, alert.task),
    )
