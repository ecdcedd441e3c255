"""Each row of the table of failures in the docs is tested by the real thing."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_STORE = "tests/unit/server/store/test_postgres.py"
_SHARED = "tests/shared_store/test_shared_store.py"
_JOB = "tests/engines/test_ray_batch.py"
_ROWS = "tests/unit/client/cli/test_table_job.py"
TESTS = {
    "A server is killed": (
        f"{_SHARED}::test_equal_questions_to_three_servers_are_paid_once_but_for_those_of_one_that_is_killed",
        "tests/faults/test_proxies.py::test_kill_9_of_one_loses_no_call",
    ),
    "A server stands still for more than 6 s": (
        f"{_STORE}::test_the_claims_of_a_process_that_is_killed_or_stands_still_end_with_its_lease",
    ),
    "A server is killed while it spends a budget": (
        "tests/shared_store/test_quota_kills.py::test_no_kill_loses_a_charge_or_lets_more_be_spent_than_there_is",
    ),
    "The store can't be reached when a server starts": (
        f"{_SHARED}::test_without_the_store_nothing_is_paid_for_and_what_is_free_goes_on",
    ),
    "The store goes away later, or is restarted": (
        f"{_SHARED}::test_servers_spend_a_budget_together_no_more_and_nothing_unwritten",
        f"{_STORE}::test_it_comes_back_by_itself_and_what_was_kept_is_written",
    ),
    "The store stands still for less than 2 s": (
        f"{_SHARED}::test_servers_spend_a_budget_together_no_more_and_nothing_unwritten",
        f"{_STORE}::test_one_that_stands_still_is_not_waited_for_long",
    ),
    "The store's connections are used up": (
        f"{_STORE}::test_connections_that_are_used_up_are_a_store_that_is_away",
    ),
    "The store's disk is full, or its role may not write": (
        f"{_STORE}::test_one_that_takes_no_claims_as_its_disk_is_full_is_away",
    ),
    "A proxy cuts connections to the store": (
        f"{_STORE}::test_a_proxy_that_cuts_fails_nothing_and_one_that_is_down_is_a_store_that_is_away",
    ),
    "A backup of the store is restored": (
        f"{_STORE}::test_a_backup_has_its_rows_and_no_claim_of_a_process_that_is_gone",
    ),
    "A row of the store is damaged": (
        f"{_STORE}::test_a_damaged_row_is_none_and_whoever_claims_it_is_told",
    ),
    "A paid reply can't be recorded in the call's time": (
        "tests/faults/test_locked_ledger.py::test_one_without_the_time_for_it_fails_and_costs_nothing_again",
    ),
    "A provider is down": (
        "tests/faults/test_storms.py::test_one_that_goes_down_in_the_middle_and_comes_back_loses_nothing",
    ),
    "A budget is used up": (f"{_JOB}::test_what_is_missing_is_asked_the_next_time_and_paid_once",),
    "A worker of a job dies": (
        f"{_JOB}::test_no_kill_loses_a_row_or_has_one_twice_or_paid_again",
        "tests/engines/test_spark.py::test_no_kill_loses_a_row_or_has_one_twice_or_paid_again",
        "tests/engines/test_daft.py::test_no_kill_loses_a_row_or_has_one_twice_or_paid_again",
    ),
    "The driver of a job dies": (
        f"{_JOB}::test_no_kill_loses_a_row_or_has_one_twice_or_paid_again",
        f"{_JOB}::test_blocks_that_were_judged_when_it_was_killed_are_kept",
    ),
    "Another judge answers than that of the output": (
        f"{_JOB}::test_a_killed_job_is_gone_on_with_and_what_was_added_is_judged",
        "tests/engines/test_ray.py::test_another_judge_ends_the_job",
        "tests/engines/test_spark.py::test_another_judge_ends_the_job",
    ),
    "A row was edited since it was judged": (
        f"{_JOB}::test_a_killed_job_is_gone_on_with_and_what_was_added_is_judged",
        f"{_ROWS}::test_refuses_edited_texts",
    ),
    "Ids are null, or there twice": (
        f"{_JOB}::test_ids_that_tell_no_rows_apart_are_refused",
        f"{_ROWS}::test_that_tell_no_rows_apart_are_refused",
    ),
    "A row makes the server fail, others don't": (
        "tests/unit/client/test_arrow.py::test_a_fault_of_the_server_is_that_of_the_row_that_brings_it_about",
    ),
    "Clocks differ": (
        f"{_STORE}::test_the_claims_of_a_process_that_is_killed_or_stands_still_end_with_its_lease",
        "tests/unit/server/llm/test_reply_cache.py::test_a_reply_from_far_in_the_future_does_not_count",
    ),
}


def test_the_rows_are_these() -> None:
    page = (ROOT / "docs" / "faults.md").read_text("utf-8")
    section = page.partition("## Servers, stores and engines that fail")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)
    assert rows[1:] == list(TESTS)


def test_the_tests_are_there() -> None:
    for tests in TESTS.values():
        for test in tests:
            path, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text("utf-8"), test
