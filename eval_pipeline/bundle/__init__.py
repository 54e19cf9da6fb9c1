"""A bundle's files become checked rows here; nothing in this folder knows the store."""
