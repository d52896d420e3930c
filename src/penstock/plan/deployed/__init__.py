"""What is deployed: the state document, where it is stored, checkpoints and their files, offsets and consumer groups.

Reads and writes what earlier runs have left. Nothing here compares it with a new manifest.
"""
