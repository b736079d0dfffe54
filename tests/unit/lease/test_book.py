import pytest

from jobqueue.domain.lease import Lease
from jobqueue.lease.book import Book
from jobqueue.lease.settings import LeaseSettings
from jobqueue.runtime.clock import ManualClock

SETTINGS = LeaseSettings(lease_s=30.0, renew_interval_s=10.0)
A, B, C = Lease(1, 11), Lease(2, 12), Lease(3, 13)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000.0)


@pytest.fixture
def book(clock: ManualClock) -> Book:
    book = Book(SETTINGS, clock)
    book.add([A], clock.monotonic())
    return book


def test_a_lease_is_due_after_the_renew_interval(book: Book, clock: ManualClock) -> None:
    assert book.due() == []
    assert book.next_due_s() == 10.0
    clock.advance(10.0)
    assert book.due() == [A]


def test_one_due_lease_takes_along_those_half_way_there(book: Book, clock: ManualClock) -> None:
    clock.advance(4.0)
    book.add([B], clock.monotonic())
    clock.advance(2.0)
    book.add([C], clock.monotonic())
    clock.advance(4.0)
    assert book.due() == [A, B]


def test_trust_ends_a_margin_before_the_database_would_end_it(
    book: Book, clock: ManualClock
) -> None:
    clock.advance(26.9)
    assert book.lapsed() == []
    clock.advance(0.2)
    assert book.lapsed() == [A]
    assert len(book) == 0


def test_trust_counts_from_when_the_renewal_was_sent(book: Book, clock: ManualClock) -> None:
    sent_at = clock.monotonic()
    clock.advance(9.0)
    book.renewed([A], sent_at)
    clock.advance(18.1)
    assert book.lapsed() == [A]


def test_a_busy_lease_is_asked_for_again_and_not_given_up(book: Book, clock: ManualClock) -> None:
    for _ in range(60):
        clock.advance(1.0)
        book.busy([A], clock.monotonic())
    assert book.lapsed() == []
    clock.advance(1.0)
    assert book.due() == [A]


def test_a_busy_lease_is_believed_until_it_should_have_been_asked_for_again(
    book: Book, clock: ManualClock
) -> None:
    clock.advance(25.0)
    book.busy([A], clock.monotonic())
    clock.advance(9.9)
    assert book.lapsed() == []
    clock.advance(0.2)
    assert book.lapsed() == [A]


def test_a_short_busy_lease_is_asked_for_again_well_before_it_is_given_up(
    clock: ManualClock,
) -> None:
    book = Book(LeaseSettings(lease_s=3.0, renew_interval_s=1.0), clock)
    book.add([A], clock.monotonic())
    clock.advance(2.5)
    book.busy([A], clock.monotonic())
    clock.advance(0.5)
    assert book.due() == [A]
    clock.advance(0.4)
    assert book.lapsed() == []
    clock.advance(0.2)
    assert book.lapsed() == [A]


def test_a_lease_past_its_deadline_is_not_renewed_and_lapses(
    book: Book, clock: ManualClock
) -> None:
    book.set_deadline(A, clock.monotonic() + 5.0)
    clock.advance(10.0)
    assert book.due() == []
    assert book.next_due_s() == 10.0, "nobody looks for it again and again"
    clock.advance(17.0)
    assert book.lapsed() == [A]


def test_a_lease_past_its_deadline_is_not_taken_along(book: Book, clock: ManualClock) -> None:
    book.add([B], clock.monotonic())
    book.set_deadline(A, clock.monotonic() + 5.0)
    clock.advance(10.0)
    assert book.due() == [B]


def test_cancel_news_comes_once(book: Book, clock: ManualClock) -> None:
    assert book.watched() == [], "most jobs end within the second"
    clock.advance(1.0)
    assert book.watched() == [A]
    assert book.cancelled([A, B]) == [A]
    assert book.cancelled([A]) == []
    assert book.watched() == []


def test_a_dropped_lease_is_no_longer_lost(book: Book) -> None:
    book.drop([A])
    assert book.lost([A]) == []


def test_a_lease_just_lost_is_left_to_the_reaper(book: Book, clock: ManualClock) -> None:
    assert book.lost([A]) == [A]
    assert book.strangers([A, B]) == [B]
    clock.advance(61.0)
    assert book.strangers([A]) == [A]


def test_words_about_unknown_leases_are_ignored(book: Book, clock: ManualClock) -> None:
    book.renewed([B], clock.monotonic())
    book.busy([B], clock.monotonic())
    book.set_deadline(B, clock.monotonic())
    assert len(book) == 1


def test_what_was_adopted_is_due_at_once_and_a_stranger_until_the_worker_tells_of_it(
    book: Book, clock: ManualClock
) -> None:
    book.adopt([A, B], clock.monotonic())
    assert book.due() == [B]
    book.renewed([B], clock.monotonic())
    assert book.strangers([A, B]) == [B]
    clock.advance(9.0)
    book.add([B], proven_at=clock.monotonic() - 30.0)  # the claim that brought it took so long
    assert book.strangers([A, B]) == []
    assert book.lapsed() == [], "it was renewed since"


def test_what_was_adopted_and_is_dropped_or_lost_is_renewed_no_more(
    book: Book, clock: ManualClock
) -> None:
    book.adopt([B, C], clock.monotonic())
    book.drop([B])
    assert book.lost([C]) == [C]
    assert book.due() == []
    assert book.strangers([B, C]) == [B], "what was lost is the reaper's"
