"""Routes are made once in a process; each collector in it answers with its own parts."""

from pathlib import Path

from tests.collector.conftest import Service


def test_two_collectors_of_a_process_have_nothing_in_common(tmp_path: Path) -> None:
    """One takes three records over the same routes over which the other takes one."""
    services = [Service(tmp_path / name) for name in ("one", "other")]
    try:
        for service, count in zip(services, (3, 1), strict=True):
            items: list[object] = [
                {"uid": f"u{n}", "profile": "p", "context": {}} for n in range(count)
            ]
            assert service.send(*items)["accepted"] == count
        accepted = [each.get("/api/v1/conservation")["records"]["accepted"] for each in services]
        assert accepted == [3, 1]
    finally:
        for each in services:
            each.stop()
