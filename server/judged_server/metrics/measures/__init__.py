"""The formulas of ranking metrics, their declarations, and names as requests write them."""
