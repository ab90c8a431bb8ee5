"""Breakers: who asks while a service is away, and when."""

import gc

import pytest

from adkpg.outages.breaker import Breaker, Breakers
from tests.fakes.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(clock)


def permit(breaker: Breaker, answer_s: float = 10.0) -> int:
    given = breaker.admit(answer_s)
    assert given is not None
    return given


def test_all_may_ask_while_it_is_closed(breaker: Breaker) -> None:
    assert [breaker.admit(10.0) for _ in range(3)] == [0, 0, 0]
    assert breaker.pause_s() == 0.0


def test_the_first_failure_of_many_opens_it_for_all(breaker: Breaker) -> None:
    permits = [permit(breaker) for _ in range(5)]
    breaker.failed(permits[0], "It is down.")
    pause_s = breaker.pause_s()
    assert 0.5 <= pause_s <= 1.0
    assert breaker.cause == "It is down."
    for late in permits[1:]:
        breaker.failed(late, "The same outage.")
    assert breaker.pause_s() == pause_s
    assert breaker.cause == "It is down."
    assert breaker.admit(10.0) is None


def test_who_still_waits_is_told_that_anothers_failure_opened_it(
    breaker: Breaker, clock: Clock
) -> None:
    first, waiting = permit(breaker), permit(breaker)
    assert not breaker.opened_since(waiting)
    breaker.failed(first, "It is down.")
    assert breaker.opened_since(waiting)
    clock.now += 1
    assert not breaker.opened_since(permit(breaker)), "who asks whether it goes on waits"
    breaker.answered()
    assert not breaker.opened_since(waiting)


def test_after_the_pause_one_asks_and_the_others_when_it_has_an_answer(
    breaker: Breaker, clock: Clock
) -> None:
    breaker.failed(permit(breaker), "down")
    clock.now += 1
    permit(breaker)
    assert breaker.admit(10.0) is None
    breaker.answered()
    assert breaker.admit(10.0) is not None
    assert breaker.pause_s() == 0.0


def test_pauses_double_up_to_five_minutes_and_begin_again_after_an_answer(
    breaker: Breaker, clock: Clock
) -> None:
    for longest in (1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300):
        breaker.failed(permit(breaker), "down")
        assert longest / 2 <= breaker.pause_s() <= longest
        clock.now += longest
    permit(breaker)
    breaker.answered()
    breaker.failed(permit(breaker), "down")
    assert breaker.pause_s() <= 1


def test_a_call_that_fails_late_says_that_the_outage_goes_on(
    breaker: Breaker, clock: Clock
) -> None:
    before = permit(breaker)
    breaker.failed(permit(breaker), "down")
    clock.now += 30
    breaker.failed(before, "no answer within 30 s")
    assert 1 <= breaker.pause_s() <= 2


def test_a_call_that_fails_late_says_nothing_after_an_answer(breaker: Breaker) -> None:
    before = permit(breaker)
    breaker.failed(permit(breaker), "down")
    breaker.answered()
    breaker.failed(before, "no answer within 30 s")
    assert breaker.pause_s() == 0.0


def test_a_service_is_left_alone_as_long_as_it_asks(breaker: Breaker) -> None:
    breaker.failed(permit(breaker), "429", at_least_s=45.0)
    assert breaker.pause_s() == 45.0


def test_a_service_cannot_ask_for_more_than_five_minutes(breaker: Breaker) -> None:
    breaker.failed(permit(breaker), "429", at_least_s=86_400.0)
    assert breaker.pause_s() == 300.0


def test_another_asks_instead_of_one_who_was_cancelled(breaker: Breaker, clock: Clock) -> None:
    breaker.failed(permit(breaker), "down")
    clock.now += 1
    probe = permit(breaker)
    assert breaker.admit(10.0) is None
    breaker.withdrawn(probe)
    permit(breaker)


def test_who_was_cancelled_before_the_outage_ends_no_pause(breaker: Breaker) -> None:
    before = permit(breaker)
    breaker.failed(permit(breaker), "down")
    breaker.withdrawn(before)
    assert breaker.admit(10.0) is None


def test_who_never_comes_back_is_waited_for_no_longer_than_an_answer_takes(
    breaker: Breaker, clock: Clock
) -> None:
    breaker.failed(permit(breaker), "down")
    clock.now += 1
    permit(breaker, answer_s=10.0)
    clock.now += 9
    assert breaker.admit(10.0) is None
    clock.now += 1
    permit(breaker)


def test_a_service_that_is_forgiven_is_asked_at_once_and_pauses_grow_on(breaker: Breaker) -> None:
    breaker.failed(permit(breaker), "down")
    breaker.forgive()
    assert breaker.pause_s() == 0.0
    permits = [permit(breaker), permit(breaker)]
    breaker.failed(permits[0], "still down")
    assert 1 <= breaker.pause_s() <= 2
    assert breaker.cause == "still down"


def test_each_hearer_is_told_once_of_each_opening(breaker: Breaker, clock: Clock) -> None:
    assert not breaker.news("log")
    breaker.failed(permit(breaker), "down")
    assert [breaker.news("log"), breaker.news("log"), breaker.news("other")] == [True, False, True]
    clock.now += 1
    breaker.failed(permit(breaker), "still down")
    assert [breaker.news("log"), breaker.news("log")] == [True, False]


class Service:
    """Neither hashable nor equal to itself, as an embedder may be."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False


def test_one_object_has_one_breaker_for_each_use() -> None:
    breakers, service = Breakers(), Service()
    held = breakers.of(service)
    assert breakers.of(service) is held
    assert breakers.of(service, "search") is not held
    assert breakers.of(Service()) is not held
    assert Breakers().of(service) is not held


def test_a_breaker_that_nobody_holds_is_forgotten() -> None:
    breakers, service = Breakers(), Service()
    breaker = breakers.of(service)
    breaker.failed(permit(breaker), "down")
    del breaker
    gc.collect()
    assert breakers.of(service).pause_s() == 0.0
