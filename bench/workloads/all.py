"""All workloads, in the order in which they are run and reported."""

from bench.workloads.base import Workload
from bench.workloads.batch_submit import BatchSubmit
from bench.workloads.drain import Drain
from bench.workloads.single_submit import SingleSubmit

WORKLOADS: tuple[Workload, ...] = (Drain(), BatchSubmit(), SingleSubmit())
