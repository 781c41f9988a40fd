"""Networks: nodes and links, as files and as arrays, their generators, and other tools' formats."""
