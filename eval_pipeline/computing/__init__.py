"""The room computing."""
