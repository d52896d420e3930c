"""What becomes of one batch: rules, compaction, fan-out, and the write to each sink."""
