"""Checkpoints that travel with the package, and how they were made."""
