"""Generated protobuf code of KEDA's contract for external scalers.

Made from proto/ by `make proto` and committed, so that users need no compiler.
"""
