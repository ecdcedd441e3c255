from __future__ import annotations

import pytest
from judged_server.errors import Overloaded
from judged_server.usecases.admission import Admission


def test_what_does_not_fit_is_turned_away_with_a_delay():
    admission = Admission(100)
    with admission.admit(60):
        with pytest.raises(Overloaded) as caught, admission.admit(41):
            pass
        assert caught.value.retry_after_s > 0
        with admission.admit(40):
            assert admission.pending_bytes == 100
    assert admission.pending_bytes == 0


def test_a_request_of_any_size_is_admitted_when_nothing_is_in_work():
    with Admission(100).admit(1_000_000):
        pass


def test_bytes_are_given_back_when_a_call_fails():
    admission = Admission(100)
    with pytest.raises(ZeroDivisionError), admission.admit(100):
        raise ZeroDivisionError
    assert admission.pending_bytes == 0
