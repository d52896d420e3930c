"""A static documentation site for a compiled project: HTML that opens from disk, without a server or a network.

`model.Site` is all that this room knows of a project; `write.write_site` turns it into files, `serve.serve` shows them.
"""
