"""How big everything is: the short form for every day, the full one for figures to rely on."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Form:
    """Sizes of one form. Names that end in ``_s`` are seconds."""

    name: str
    runs: int  # of the workloads that matter most
    side_runs: int  # of the others
    slow_runs: int  # of peers that nobody waits for
    box_s: float  # no cell is measured for longer, series apart
    load_s: float  # to store the jobs of a drain; a slow peer gets fewer
    drain_jobs: int
    drain_processes: tuple[int, ...]
    batch_submit_jobs: int
    single_submit_s: float
    pickup_jobs: int
    idle_s: float
    claim_rows: int
    claim_ready: int
    claims: int
    future_jobs: int
    future_rounds: int
    failure_jobs: int
    steady_rates: tuple[int, ...]  # a second
    steady_s: float
    held_warm_s: float
    held_clean_s: float
    held_s: float  # at full speed
    held_rate: int  # a second
    held_rate_s: float
    held_peers: int  # the fastest first
    scale_direct: tuple[int, ...]
    scale_remote: tuple[int, ...]
    scale_both: int  # of each kind at once; 0: never
    scale_most_busy: int  # workers that a small machine can keep busy; more share the same jobs
    scale_s: float
    event_cost_jobs: int
    event_cost_s: float  # of the rows alone
    relay_jobs: int
    memory_jobs: int
    memory_s: float
    recovery_faults: int  # of each kind
    recovery_outage_s: float

    def repeated(self, runs: int | None) -> "Form":
        """Return the form with every cell run so often; None: as it is."""
        return self if runs is None else replace(self, runs=runs, side_runs=runs, slow_runs=runs)


SHORT = Form(
    name="short",
    runs=2,
    side_runs=1,
    slow_runs=1,
    box_s=6.0,
    load_s=10.0,
    drain_jobs=30_000,
    drain_processes=(1, 2),
    batch_submit_jobs=60_000,
    single_submit_s=4.0,
    pickup_jobs=100,
    idle_s=10.0,
    claim_rows=1_000_000,
    claim_ready=100_000,
    claims=200,
    future_jobs=300_000,
    future_rounds=4,
    failure_jobs=10_000,
    steady_rates=(200,),
    steady_s=8.0,
    held_warm_s=3.0,
    held_clean_s=6.0,
    held_s=24.0,
    held_rate=500,
    held_rate_s=15.0,
    held_peers=1,
    scale_direct=(1, 2, 4),
    scale_remote=(2,),
    scale_both=0,
    scale_most_busy=4,
    scale_s=3.0,
    event_cost_jobs=20_000,
    event_cost_s=3.0,
    relay_jobs=15_000,
    memory_jobs=50_000,
    memory_s=60.0,
    recovery_faults=2,
    recovery_outage_s=5.0,
)
FULL = Form(
    name="full",
    runs=5,
    side_runs=3,
    slow_runs=3,
    box_s=20.0,
    load_s=60.0,
    drain_jobs=200_000,
    drain_processes=(1, 2),
    batch_submit_jobs=300_000,
    single_submit_s=15.0,
    pickup_jobs=400,
    idle_s=30.0,
    claim_rows=10_000_000,
    claim_ready=1_000_000,
    claims=1_000,
    future_jobs=1_000_000,
    future_rounds=10,
    failure_jobs=100_000,
    steady_rates=(250, 500, 750),
    steady_s=20.0,
    held_warm_s=10.0,
    held_clean_s=60.0,
    held_s=300.0,
    held_rate=500,
    held_rate_s=1_800.0,
    held_peers=2,
    scale_direct=(1, 2, 4, 8, 16, 32, 64, 100),
    scale_remote=(1, 2, 4, 16),
    scale_both=100,
    scale_most_busy=16,
    scale_s=5.0,
    event_cost_jobs=100_000,
    event_cost_s=10.0,
    relay_jobs=50_000,
    memory_jobs=1_000_000,
    memory_s=1_200.0,
    recovery_faults=8,
    recovery_outage_s=20.0,
)
FORMS = {form.name: form for form in (SHORT, FULL)}
