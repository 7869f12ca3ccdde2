"""The machines, one model per kind of chip. They do not know one another."""
