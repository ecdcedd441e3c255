"""What the product does today, recorded, and compared while it is rebuilt; deleted at the end."""
