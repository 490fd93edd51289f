"""The ablation: which formulation, which solver and which search."""
