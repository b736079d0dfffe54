"""The public gRPC client.

One typed way in for applications and for jq-ctl, free of every server dependency.
"""
