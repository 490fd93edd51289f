"""Where to cut the network: an exact, lazily evaluated shortest path over cuts and kept tensors."""
