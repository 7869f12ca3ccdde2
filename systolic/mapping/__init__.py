"""Tiles, loop orders and splits: how a matmul is cut to fit a chip, and the search for the cheapest cut."""
