"""What a person wrote: loading it, and the models of both formats."""
