"""What commands print and write: tables, documents, warnings and gates."""
