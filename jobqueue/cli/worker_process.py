"""One of several worker processes: `python -m jobqueue.cli.worker_process PARENT PLACE FLAG…`.

Ends like on SIGTERM when its parent is gone, so that a killed parent leaves no workers behind. Its
exit code is that of `jq-worker`, but for an end as asked and for bad settings: with 0 and 2 also a
process ends whose handler ended it, or a library that the handler calls.
"""

import signal
import sys

from jobqueue.cli.worker import main
from jobqueue.runtime.parent import end_with_parent
from jobqueue.worker.supervisor import CHILD_AS_ASKED, CHILD_BAD_SETTINGS, EXIT_BAD_SETTINGS

if __name__ == "__main__":
    end_with_parent(int(sys.argv.pop(1)), signal.SIGTERM)
    try:
        main(sys.argv.pop(1), CHILD_AS_ASKED)
    except SystemExit as end:
        told = CHILD_BAD_SETTINGS if end.code == EXIT_BAD_SETTINGS else end.code
        sys.exit(told or CHILD_AS_ASKED)
