"""Redis: one hash per key. Modules other than `sink` are loaded by executors and import little."""
