"""Pictures and tables of graphs: Graphviz text, matplotlib drawings, and HTML tables for notebooks."""
