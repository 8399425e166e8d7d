"""What protects a federation from its members, and its members from the federation.

attacks   what a poisoned client sends, to try defences with
robust    what a server does with updates that it cannot trust
privacy   clipping, noise, and how much of a privacy budget they use up
window    in which rounds an attack or a rule applies
secure    secure aggregation: the server learns sums only
"""
