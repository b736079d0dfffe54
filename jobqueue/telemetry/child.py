"""A handler process whose handlers run in the trace of their job (see ``jobqueue.worker.child``).

Sets up no exporter: handlers that make spans in it bring the SDK with them.
"""

import sys

from jobqueue.telemetry.carriers import continued
from jobqueue.worker.child import main

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), continued)
