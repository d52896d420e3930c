"""Redis: a hash for each key. Modules besides `sink` are loaded by executors and import little."""
