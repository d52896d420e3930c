"""Functions over Arrow arrays and tables that the kernels share: codes, order, sums, times, expiry.

Nothing here knows an operator's state.
"""
