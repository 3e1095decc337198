"""The lists of evaluations and the counts of results, on both databases."""

from tests.contracts.store_facets import StoreFacetsContract
from tests.contracts.store_lists import StoreListsContract
from tests.contracts.store_newest import NewestContract
from tests.contracts.store_opened import OpenedStore
from tests.contracts.store_reading import ReadingContract
from tests.contracts.store_telemetry import TelemetryContract
from tests.contracts.store_work import WorkContract


class TestLists(StoreListsContract):
    """Lists, series and rates."""


class TestReading(ReadingContract):
    """Filters and counts."""


class TestNewest(NewestContract):
    """The newest results of a task."""


class TestResults(OpenedStore):
    """Evaluations as they are written, and what they count."""

    test_as_it_was = WorkContract.test_an_evaluation_comes_back_as_it_was
    test_once = WorkContract.test_an_evaluation_is_counted_once
    test_revisions = WorkContract.test_a_revision_takes_the_place_of_the_evaluation_before_it
    test_versions = WorkContract.test_counters_follow_a_record_until_another_version_judges_it
    test_counters = WorkContract.test_counters_are_those_of_a_brute_force_count
    test_latest = WorkContract.test_the_latest_evaluations
    test_order = WorkContract.test_results_come_in_the_order_of_commits_from_any_place
    test_totals = TelemetryContract.test_totals_survive
    test_facets = StoreFacetsContract.test_a_count_of_evaluations_is_the_length_of_the_list
    test_partial = StoreFacetsContract.test_counts_that_end_early_say_how_far_they_looked
