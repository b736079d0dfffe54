"""All workloads, in the order in which they are run and reported."""

from bench.workloads.base import Workload
from bench.workloads.batch_submit import BatchSubmit
from bench.workloads.claim import ClaimDepth
from bench.workloads.drain import Drain
from bench.workloads.event_cost import EventCost
from bench.workloads.failures import Failures
from bench.workloads.future import FutureJobs
from bench.workloads.held import HeldSnapshot
from bench.workloads.memory import Memory
from bench.workloads.pickup import PickUp
from bench.workloads.recovery import Recovery
from bench.workloads.relay import RelaySpeed
from bench.workloads.scale_out import ScaleOut
from bench.workloads.single_submit import SingleSubmit
from bench.workloads.steady import SteadyState
from bench.workloads.tuning import Tuning

WORKLOADS: tuple[Workload, ...] = (
    Drain(),
    BatchSubmit(),
    SingleSubmit(),
    PickUp(),
    SteadyState(),
    ClaimDepth(),
    FutureJobs(),
    Failures(),
    EventCost(),
    RelaySpeed(),
    ScaleOut(),
    Recovery(),
    HeldSnapshot(),
    Memory(),
    Tuning(),
)
