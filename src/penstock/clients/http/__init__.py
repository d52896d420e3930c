"""HTTP requests: authentication, retries, and rows sent from executors."""
