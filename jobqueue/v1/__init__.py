"""Generated protobuf code.

Made from proto/ by `make proto` and committed, so that users need no compiler.
"""
