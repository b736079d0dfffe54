"""A module that ends whoever imports it."""

raise SystemExit(5)
