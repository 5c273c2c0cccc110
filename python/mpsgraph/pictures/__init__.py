"""Pictures and tables of graphs: as text for Graphviz, drawn by matplotlib, as tables in notebooks."""
