"""How big everything is: the short form for every day, the full one for figures to rely on."""

from dataclasses import dataclass

BOX_S = 20.0
"""No cell is measured for longer, long series apart."""


@dataclass(frozen=True, slots=True)
class Form:
    """Sizes of one form. Durations are seconds."""

    name: str
    runs: int
    box_s: float
    load_s: float  # to store the jobs of a drain; a slow peer gets fewer jobs
    drain_jobs: int
    drain_processes: tuple[int, ...]
    batch_submit_jobs: int
    single_submit_s: float


SHORT = Form(
    name="short",
    runs=3,
    box_s=8.0,
    load_s=20.0,
    drain_jobs=50_000,
    drain_processes=(1, 2),
    batch_submit_jobs=60_000,
    single_submit_s=4.0,
)
FULL = Form(
    name="full",
    runs=5,
    box_s=BOX_S,
    load_s=60.0,
    drain_jobs=200_000,
    drain_processes=(1, 2),
    batch_submit_jobs=300_000,
    single_submit_s=15.0,
)
FORMS = {form.name: form for form in (SHORT, FULL)}
