"""The kernels of window functions: OVER a frame of rows, and the first rows of a partition."""
