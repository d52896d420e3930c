"""Plans: the compiled project compared with what is deployed."""
