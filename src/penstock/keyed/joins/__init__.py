"""The kernels of joins: changelog joins, interval joins and temporal joins."""
