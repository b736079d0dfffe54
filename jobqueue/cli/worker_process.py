"""One of several worker processes: `python -m jobqueue.cli.worker_process PARENT PLACE FLAG…`.

Ends like on SIGTERM when its parent is gone, so that a killed parent leaves no workers behind. Its
exit code is that of `jq-worker`, but for an end as asked: 0 is also what a handler makes of it that
calls ``os._exit(0)``.
"""

import signal
import sys

from jobqueue.cli.worker import main
from jobqueue.runtime.parent import end_with_parent
from jobqueue.worker.supervisor import EXIT_AS_ASKED

if __name__ == "__main__":
    end_with_parent(int(sys.argv.pop(1)), signal.SIGTERM)
    try:
        main(sys.argv.pop(1), EXIT_AS_ASKED)
    except SystemExit as end:
        sys.exit(end.code or EXIT_AS_ASKED)
