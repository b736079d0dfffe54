"""``jq-ctl``, the operator's program: one file per noun, built on the public client.

It starts in a fraction of a second because gRPC, rich and YAML are loaded only by the command that
needs them. stdout carries results alone, so that it can always be parsed; the rest goes to stderr.
"""

from jobqueue.cli.ctl.app import main

__all__ = ["main"]
