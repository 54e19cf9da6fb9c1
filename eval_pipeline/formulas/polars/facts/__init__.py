"""Shipped facts in Python."""
