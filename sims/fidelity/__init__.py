"""How each device's measured rows were run, for the studies that judge the simulator by them."""
