"""Tests of guards can fail: each does once its guard is switched off.

A test that passes without what it tests is no evidence. `switched_off/sitecustomize.py` has the
guards; here stand the tests that must then fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SWITCHED_OFF = Path(__file__).parent / "switched_off"
REWRITTEN = "ignore::pytest.PytestAssertRewriteWarning"
UNIT = "tests/unit/server"

TESTS = {
    "budget_of_a_day": f"{UNIT}/llm/budget/test_budgets.py"
    "::test_a_day_is_held_to_by_all_calls_together",
    "usable_certificate": f"{UNIT}/api/listening/test_certificates.py"
    "::test_what_can_not_be_used_keeps_the_old_one",
    "rotated_certificates": "tests/integration/access/test_tls.py"
    "::test_a_hundred_rotations_under_load_lose_no_call",
    "ends_of_tokens": f"{UNIT}/tenants/test_directory.py"
    "::test_a_token_that_has_ended_or_is_of_nobody_counts_for_nothing",
    "revoked_tokens": f"{UNIT}/tenants/test_directory.py::test_revoked_credentials_end_to_count",
    "failed_calls": "tests/integration/access/test_failed_calls.py",
    "urls_of_providers": f"{UNIT}/llm/test_configuration_urls.py::test_urls_that_are_not",
    "addresses_of_providers": f"{UNIT}/llm/transport/test_resolving.py"
    "::test_a_name_that_leads_inside_is_not_connected_to",
    "redirects_of_providers": "tests/faults/providers/test_provider_connections.py"
    "::test_redirects_are_not_followed",
    "characters_of_keys": f"{UNIT}/llm/config/test_secrets.py"
    "::test_what_no_header_may_hold_is_refused_unseen",
    "words_of_others": "tests/faults/providers/test_provider_leaks.py"
    "::test_keys_and_texts_are_shown_nowhere",
    "reflection_by_flag": "tests/integration/server/test_lifecycle.py"
    "::TestHealthAndReflection::test_reflection_is_off_unless_asked_for",
    "repeated_requests": f"{UNIT}/api/test_idempotency.py",
    "usable_tenants": f"{UNIT}/tenants/test_directory.py"
    "::test_a_bad_file_changes_nothing_and_is_told_once",
    "numbers_of_settings": f"{UNIT}/test_settings.py::test_numbers_that_are_none_are_refused",
    "stacks_of_a_standing_loop": f"{UNIT}/process/test_watchdog.py"
    "::test_the_stacks_of_a_loop_that_stands_are_written_once",
    "end_of_a_standing_loop": f"{UNIT}/process/test_watchdog.py"
    "::test_a_process_whose_loop_stands_for_long_ends_with_its_stacks",
    "unread_replies": "tests/integration/server/test_interceptor.py"
    "::test_a_stream_whose_replies_nobody_reads_is_ended",
    "calls_of_a_connection": f"{UNIT}/api/listening/test_connections.py"
    "::test_a_connection_has_so_many_calls_in_work_and_others_are_served",
    "want_of_memory": f"{UNIT}/embedding/batching/test_workers.py"
    "::TestFaults::test_want_of_memory_is_said_and_may_pass",
    "halved_batches": f"{UNIT}/embedding/batching/test_workers.py"
    "::TestFaults::test_a_failed_batch_is_halved_once",
}
if "JUDGED_STORM_CANCELS" in os.environ:  # `make faults`: these take half a minute
    TESTS["pings_of_a_connection"] = (
        "tests/faults/test_connections.py::test_a_flood_of_pings_ends_its_connection_alone"
    )
    TESTS["credentials_of_calls"] = (
        "tests/integration/access/test_authorisation.py::test_who_is_let_in"
    )


@pytest.mark.parametrize("guard", TESTS)
def test_a_test_fails_without_its_guard(guard: str):
    paths = [str(SWITCHED_OFF), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", TESTS[guard]]
    done = subprocess.run(
        # A guard's module may bring the plugin of pytest before pytest does.
        [*command, "-p", "no:cacheprovider", "-p", "no:randomly", "-W", REWRITTEN],
        cwd=ROOT,
        env={**os.environ, "GUARD_OFF": guard, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-4000:] + done.stderr
    assert "1 failed" in done.stdout
