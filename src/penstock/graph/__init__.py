"""Names resolved: who reads from whom, in which order, with which columns."""
