"""The soak's verdict: what makes a run fail, a hollow one too."""

from benchmarks.soak.faults import Fault
from benchmarks.soak.history import History
from benchmarks.soak.report import Report
from benchmarks.soak.samples import Sample, Samples, growth

HIT = Fault("server killed", 1.0, 2.0, 1)
MISSED = Fault("server killed", 1.0, 2.0, 0)


def history(*kinds: str) -> History:
    found = History()
    for number, kind in enumerate(kinds):
        found.add({"kind": kind, "session": "s", "value": "a", "type": "Busy", "at": number})
    return found


def samples(*megabytes: float) -> Samples:
    taken = [
        Sample(at_s, {"reader": size}, 20, {"events": 3.0}, {"events": 10})
        for at_s, size in enumerate(megabytes)
    ]
    return Samples(taken)


def report(found: History, held: Samples, *faults: Fault) -> Report:
    return Report(10, found, held, faults, [])


def test_a_run_that_holds() -> None:
    fine = report(history("invoke", "ok"), samples(9, 100, 100, 100, 101, 104), HIT, MISSED)
    assert fine.failures == []
    assert "All invariants held." in fine.text()


def test_a_run_in_which_nothing_was_hit_or_done_is_hollow() -> None:
    done, flat = history("invoke", "ok"), samples(1, 1, 1)
    for faults in ((), (MISSED,)):
        assert report(done, flat, *faults).failures == ["hollow: no fault hit anything"]
    nothing = report(history("invoke"), flat, HIT)
    assert nothing.failures == ["hollow: nothing was appended"]


def test_an_error_that_reached_a_caller_fails() -> None:
    failed = report(history("invoke", "ok", "error"), samples(1, 1, 1), HIT)
    assert failed.failures == ["1 x Busy reached a caller"]


def test_what_grows_fails() -> None:
    grown = report(history("invoke", "ok"), samples(9, 9, 100, 100, 105, 105), HIT)
    assert grown.failures == ["memory of the reader (MB) grew by 5.0 % over the last two thirds"]


def test_a_run_that_is_too_short_to_fill_the_tables_may_grow() -> None:
    short = Report(9, history("invoke", "ok"), samples(1, 2, 3), (HIT,), [])
    assert short.failures == []
    assert "Growth is judged from 10 minutes on." in short.text()


def test_connections_may_vary_by_two_and_no_more() -> None:
    for last, failed in ((22, False), (24, True)):
        counts = (20, 20, 20, 20, last, last)
        taken = [Sample(at, {"reader": 1.0}, n, {}, {}) for at, n in enumerate(counts)]
        assert bool(report(history("invoke", "ok"), Samples(taken), HIT).failures) is failed


def test_growth_is_that_of_medians_after_the_first_third() -> None:
    assert growth([1, 1, 1, 10, 10, 10, 11, 11, 900]) == 11 / 10 - 1
    assert growth([5, 5]) == 0
    assert growth([0, 0, 0]) == 0


def test_statistics_that_a_crash_reset_are_added_up() -> None:
    held = Samples()
    for updated, hot in ((10, 9), (30, 29), (5, 5)):
        held.count("sessions", updated, hot)
    assert held.updates["sessions"] == [35, 34]
