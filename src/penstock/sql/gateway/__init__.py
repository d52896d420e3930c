"""SQL that Conduktor's gateway can run by itself."""
