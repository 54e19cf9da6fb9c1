"""The room loading."""
