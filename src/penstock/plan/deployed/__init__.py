"""What is deployed: the state document, where it is stored, checkpoints and their files, offsets and consumer groups.

Reads and writes what earlier runs left. It does not compare it with a new manifest.
"""
