"""SQL that Conduktor's gateway can run itself."""
