"""Measurements: the only timer, the results file, kernel-bench and its reports."""

from kernels.bench.results import Document, Record, ResultsError, StaleRecord, read, records

__all__ = ["Document", "Record", "ResultsError", "StaleRecord", "read", "records"]
