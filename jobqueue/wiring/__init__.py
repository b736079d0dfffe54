"""The one place that builds objects from settings.

No other room knows how they are joined, so each can be built alone in a test.
"""
