"""What would change: the compiled project against what is deployed."""
