"""Documents become frozen models: loading, parsing and the models of both formats."""
