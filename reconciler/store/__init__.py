"""
The only SQL of this program.

Statements live in the `.sql` files beside this one, each with its promise; the functions here give them types.
Lock order everywhere: events, objects, refetches, each sorted by key.
"""
