"""Sweeps over designs and workloads: their spaces, their engines, their store."""
