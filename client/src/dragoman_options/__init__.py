"""Options of a translation: one table, from which the server, the clients and the commands derive.

`table.OPTIONS` and `table.OUTPUTS` are the table. It needs nothing but the standard library.
"""
