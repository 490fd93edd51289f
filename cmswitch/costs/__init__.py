"""Pure functions of (operator, chip): array footprint, cells, cycles of each stage."""
