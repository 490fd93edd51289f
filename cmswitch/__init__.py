"""Compiler for dual-mode compute-in-memory chips, built on optimisation solvers."""
