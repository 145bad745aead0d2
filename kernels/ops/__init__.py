"""Operators: one file each, from contract to `Op` record. Importing this package imports neither torch nor Triton."""
