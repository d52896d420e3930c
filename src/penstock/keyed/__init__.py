"""Stateful operators that Spark SQL lacks: their configuration, and their kernels over Arrow tables."""
