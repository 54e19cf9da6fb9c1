"""What a definition is: its header, its meaning (the fingerprint), and the registry of all of them."""
