"""Functions over Arrow arrays and tables that the kernels share: codes, order, sums, times, expiry.

No module here depends on the state of an operator.
"""
