"""The model of KEDA and HPA that the scaler is tried against does what they do."""

from tests.support.autoscaler import Autoscaler, ScaledObject


def scaler(replicas: int = 1, target: float = 4.0, **settings: object) -> Autoscaler:
    made = Autoscaler(ScaledObject(target, **settings))  # type: ignore[arg-type]
    made.replicas = replicas
    return made


def test_the_first_replica_comes_with_activity_and_the_last_goes_after_the_cooldown() -> None:
    made = scaler(0)
    assert made.sync(0.0, 400.0) == 0, "an HPA does nothing at zero"
    assert made.heard(0.0, active=True) == 1
    assert made.heard(1.0, active=False) == 1
    assert made.heard(299.0, active=False) == 1
    assert made.heard(300.0, active=False) == 0


def test_activity_begins_the_cooldown_anew() -> None:
    made = scaler()
    for now in (0.0, 200.0):
        made.heard(now, active=True)
    assert made.heard(499.0, active=False) == 1
    assert made.heard(500.0, active=False) == 0


def test_a_least_number_of_replicas_always_stays() -> None:
    made = scaler(0, min_replicas=2)
    assert made.heard(0.0, active=True) == 2
    assert made.heard(900.0, active=False) == 2
    assert made.sync(900.0, 0.0) == 2


def test_an_average_is_divided_by_the_target_and_rounded_up() -> None:
    made = scaler(3)
    assert made.sync(0.0, 17.0) == 5
    assert made.sync(0.0, 21.0) == 5, "a difference of 10 % is none"
    assert made.sync(0.0, 23.0) == 6


def test_a_value_counts_in_proportion_to_the_replicas() -> None:
    made = scaler(3, target=60.0, by_value=True)
    assert made.sync(0.0, 120.0) == 6
    assert made.sync(0.0, 65.0) == 6


def test_growth_is_bounded_by_step_and_maximum() -> None:
    made = scaler(1, max_replicas=20)
    assert [made.sync(float(now), 4000.0) for now in range(4)] == [5, 10, 20, 20]


def test_shrinking_waits_until_the_window_holds_no_higher_number() -> None:
    made = scaler(1)
    assert made.sync(0.0, 20.0) == 5
    assert made.sync(100.0, 8.0) == 5
    assert made.sync(300.0, 4.0) == 5
    assert made.sync(301.0, 4.0) == 2
    assert made.sync(500.0, 4.0) == 1


def test_at_zero_all_is_forgotten() -> None:
    made = scaler(1, cooldown_s=0.0)
    made.sync(0.0, 400.0)
    assert made.heard(1.0, active=False) == 0
    assert made.heard(2.0, active=True) == 1
    assert made.sync(3.0, 4.0) == 1
