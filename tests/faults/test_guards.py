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
    "usable_certificate": f"{UNIT}/api/test_certificates.py"
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
    "::test_a_file_counts_once_it_is_found_again_as_it_was",
    "numbers_of_settings": f"{UNIT}/test_settings.py::test_numbers_that_are_none_are_refused",
    "stacks_of_a_standing_loop": f"{UNIT}/process/test_watchdog.py"
    "::test_the_stacks_of_a_loop_that_stands_are_written_once",
    "end_of_a_standing_loop": f"{UNIT}/process/test_watchdog.py"
    "::test_a_process_whose_loop_stands_for_long_ends_with_its_stacks",
    "unread_replies": "tests/integration/server/test_interceptor.py"
    "::test_a_stream_whose_replies_nobody_reads_is_ended",
    "line_of_health_checks": "tests/integration/server/test_health.py"
    "::test_a_health_check_waits_for_no_call_that_came_before_it",
    "chunks_in_flight": "tests/faults/test_connections.py"
    "::test_streams_that_nobody_reads_are_bounded_and_end",
    "lag_of_the_loop": f"{UNIT}/monitoring/test_port.py::test_how_late_the_loop_was_is_told",
    "calls_that_have_ended": "tests/faults/test_connections.py"
    "::test_calls_that_are_reset_at_once_leave_nothing_and_hold_nobody_up",
    "addresses_of_listeners": f"{UNIT}/test_wiring.py"
    "::test_an_address_of_other_machines_wants_tls_and_callers",
    "core_dumps": "tests/integration/server/test_lifecycle.py"
    "::TestStart::test_a_crash_would_write_no_memory_to_the_disk",
    "deadlines_at_the_door": f"{UNIT}/scheduling/test_admission.py"
    "::test_what_no_idle_model_could_do_in_time_is_not_worth_a_retry",
    "deadlines_of_others": "tests/integration/server/test_interceptor.py"
    "::test_a_call_without_a_deadline_gets_one",
    "memory_of_requests": f"{UNIT}/api/test_requests.py"
    "::test_a_message_without_room_is_refused_before_it_is_inflated",
    "size_when_inflated": f"{UNIT}/api/test_requests.py"
    "::test_what_inflates_to_too_much_is_not_inflated",
    "end_of_a_drain": "tests/faults/test_drains.py::test_no_call_that_was_received_is_lost",
    "calls_of_a_connection": f"{UNIT}/api/test_listeners.py"
    "::test_a_connection_has_so_many_calls_in_work_and_others_are_served",
    "want_of_memory": f"{UNIT}/embedding/batching/test_workers.py"
    "::TestFaults::test_want_of_memory_is_said_and_may_pass",
    "halved_batches": f"{UNIT}/embedding/batching/test_workers.py"
    "::TestFaults::test_a_failed_batch_is_halved_once",
    "pings_of_a_connection": "tests/faults/test_connections.py"
    "::test_a_flood_of_pings_ends_its_connection_alone",
    "credentials_of_calls": "tests/integration/access/test_authorisation.py::test_who_is_let_in",
}


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
