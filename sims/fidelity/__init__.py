"""What the comparisons with measured hardware share: errors, rooflines, tables, a picture."""
