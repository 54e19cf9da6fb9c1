"""The room pages."""
