"""The room showing."""
