"""A query as Spark DataFrames: inputs, event time, steps, and guards for rows that cannot be processed."""
