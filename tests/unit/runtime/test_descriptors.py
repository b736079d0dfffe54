"""Limits of open files, in a process of their own: they are for life."""

import subprocess
import sys

CODE = """
import resource
from jobqueue.runtime.descriptors import allow_many_descriptors
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
allow_many_descriptors()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
"""


def test_the_soft_limit_becomes_the_hard_one() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
