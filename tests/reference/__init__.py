"""A slow, obvious second computation of everything the product computes."""
