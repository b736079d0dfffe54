"""A private PostgreSQL from a pip package.

Trying the product, and testing it, must need no other service and no rights of root.
"""
