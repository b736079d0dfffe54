"""The gRPC door.

Translation between protobuf and our words and no rules, so that another door behaves alike.
"""
