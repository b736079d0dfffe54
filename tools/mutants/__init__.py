"""Proof that the tests would see it if a promise were broken: see ``__main__``."""
