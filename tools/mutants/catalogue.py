"""All ways to break the product that a test must notice."""

from tools.mutants.apart import APART
from tools.mutants.programs import PROGRAMS
from tools.mutants.retention import RETENTION
from tools.mutants.told import TOLD
from tools.mutants.upkeep import UPKEEP
from tools.mutants.work import WORK

MUTANTS = (*WORK, *UPKEEP, *RETENTION, *TOLD, *PROGRAMS, *APART)
