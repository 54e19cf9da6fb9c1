"""The room upkeep."""
