"""Commands about human labels, and judges held against them."""
