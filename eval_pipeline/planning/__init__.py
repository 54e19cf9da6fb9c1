"""The room planning."""
