"""Shipped aggregates in Python."""
