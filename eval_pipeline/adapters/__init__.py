"""The room adapters."""
