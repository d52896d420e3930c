"""Services for development: real ones, started on this machine as separate processes."""
