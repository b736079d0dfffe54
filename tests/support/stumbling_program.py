"""`jq-server` or `jq-worker` as it is, but every loop of it and of its keeper stumbles.

Usage: ``python -m tests.support.stumbling_program server|worker FLAGS``.
"""

import sys

from jobqueue.cli import server, worker
from jobqueue.lease import direct
from jobqueue.remote import leases as remote
from tests.support import stumbling

if __name__ == "__main__":
    stumbling.stumble()
    direct.KEEPER = remote.KEEPER = stumbling.__name__
    program = sys.argv.pop(1)
    server.main() if program == "server" else worker.main()
