"""One batch from arrival to commit. Read the modules in this order; the docstring of each says what it guarantees.

1. `batch_writer` takes a batch from Spark and begins an `attempt`. Nothing that an attempt knows outlives it.
2. `reread` reads the batch again if files have lost their order or cannot be read. `fan_out` splits one stream into
   those of several inputs, and caches the batch until the last output has it.
3. `sink_progress` notes in the checkpoint which outputs have the batch. They are skipped when it is retried.
4. `deliver` delivers rows to one output: rows that break a rule are split off, the sink writes the others under its
   ledger, and dead letters follow. `errors replay` uses it as well.
5. If rows make that fail, `bisect` finds them by a `trial_run` that leaves no trace. Their dead letters are stored
   *before* the others are delivered: once a sink has the batch, nobody searches for them again.
6. `rejections` are the kinds of rows that reach no sink, and how each is counted. `collector` reads the rows again and
   stores them as dead letters, under names by which a store that recognises batches has each of them once.
7. Spark commits. `committed_batch` is its report, and `progress` then shows what the attempts at the batch counted.
   Where Spark writes by itself, `post_commit_scan` collects dead letters now; its mark survives a crash.

Before step 7, a crash leaves the batch uncommitted: Spark hands it over again under the same number and offsets.
"""
