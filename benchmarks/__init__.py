"""Measurements of the compiler: ``python -m benchmarks NAME``."""
