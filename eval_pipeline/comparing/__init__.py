"""The room comparing."""
