"""One of several worker processes: `python -m jobqueue.cli.worker_process PARENT PLACE FLAG…`.

Ends like on SIGTERM when its parent is gone, so that a killed parent leaves no workers behind.
"""

import signal
import sys

from jobqueue.cli.worker import main
from jobqueue.runtime.parent import end_with_parent

if __name__ == "__main__":
    end_with_parent(int(sys.argv.pop(1)), signal.SIGTERM)
    main(sys.argv.pop(1))
