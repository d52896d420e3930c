"""Spark itself: the session, its JVM, its metrics and its errors. The place to mend when Spark changes."""
