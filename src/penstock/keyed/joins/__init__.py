"""The kernels of joins: of changelogs, within an interval, and with the version valid at a time."""
