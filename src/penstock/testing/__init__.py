"""For tests of your own connectors: the contract that every built-in one is held to."""
