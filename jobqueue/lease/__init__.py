"""Ownership is the product.

The only room that takes, renews or ends a lease, so that fencing is argued in one place.
"""
