"""Layout of a drawing: nodes in rows from operands down to results, with few crossings.

The method is Sugiyama's. A node is one row below its lowest operand, and an edge that spans several rows passes through
a point in each. Rows are sorted repeatedly by the mean position of each node's neighbors, downward and upward. Finally,
nodes move toward these means as far as the others in their row allow.
"""

from __future__ import annotations

from collections.abc import Sequence

Edge = tuple[int, int]
ROUNDS = 8


def rows_of(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the row of each node; edges must go from smaller to larger node indices."""
    rows = [0] * count
    for start, end in sorted(edges, key=lambda edge: edge[1]):
        rows[end] = max(rows[end], rows[start] + 1)
    for node in reversed(range(count)):  # Nodes without operands go right above their first user.
        users = [rows[end] for start, end in edges if start == node]
        if users and not any(end == node for _, end in edges):
            rows[node] = min(users) - 1
    return rows


class Layout:
    """Result of the layout: the x position of each node and of each point that an edge passes through, and their rows.

    Positions have the same unit as the widths of the nodes.
    """

    def __init__(self, widths: Sequence[float], edges: Sequence[Edge], gap: float = 0.3) -> None:
        self.rows = rows_of(len(widths), edges)
        self.widths, self.gap = list(widths), gap
        self.paths: dict[Edge, list[int]] = {}
        """Points that each edge passes through, including its ends."""
        self._above: dict[int, list[int]] = {i: [] for i in range(len(widths))}
        self._below: dict[int, list[int]] = {i: [] for i in range(len(widths))}
        for edge in dict.fromkeys(edges):
            self._pass(edge)
        self.order: list[list[int]] = [[] for _ in range(max(self.rows, default=-1) + 1)]
        for node, row in enumerate(self.rows):
            self.order[row].append(node)
        self._sort()
        self.x = self._placed()

    def _pass(self, edge: Edge) -> None:
        start, end = edge
        path = [start]
        for row in range(self.rows[start] + 1, self.rows[end]):
            path.append(len(self.rows))
            self.rows.append(row)
            self.widths.append(0.1)
        path.append(end)
        self.paths[edge] = path
        for upper, lower in zip(path, path[1:], strict=False):
            self._below.setdefault(upper, []).append(lower)
            self._above.setdefault(lower, []).append(upper)

    def _sort(self) -> None:
        for turn in range(2 * ROUNDS):
            down = turn % 2 == 0
            neighbours = self._above if down else self._below
            place = {node: i for row in self.order for i, node in enumerate(row)}
            for row in self.order if down else reversed(self.order):
                row.sort(key=lambda node: _mean([place[n] for n in neighbours.get(node, [])], place[node]))
                place.update((node, i) for i, node in enumerate(row))

    def _placed(self) -> list[float]:
        x = [0.0] * len(self.rows)
        for row in self.order:
            left = 0.0
            for node in row:
                x[node] = left + self.widths[node] / 2
                left += self.widths[node] + self.gap
        for turn in range(4 * ROUNDS):
            for row in self.order if turn % 2 == 0 else reversed(self.order):
                around = self._above if turn % 2 == 0 else self._below
                wanted = [_mean([x[n] for n in around.get(node, [])], x[node]) for node in row]
                for node, place in zip(row, self._apart(row, wanted), strict=True):
                    x[node] = place
        return x

    def _apart(self, row: Sequence[int], wanted: Sequence[float]) -> list[float]:
        """Return positions for the nodes of a row that do not overlap and are close to the desired positions.

        The result is the mean of two solutions: one pushes overlapping nodes to the right, the other to the left.
        """

        def pushed(order: Sequence[int], sign: float) -> list[float]:
            places: list[float] = []
            for i in order:
                place = sign * wanted[i]
                if places:
                    before = order[len(places) - 1]
                    room = (self.widths[row[i]] + self.widths[row[before]]) / 2 + self.gap
                    place = max(place, places[-1] + room)
                places.append(place)
            return places

        forward = pushed(range(len(row)), 1.0)
        backward = [-place for place in reversed(pushed(range(len(row) - 1, -1, -1), -1.0))]
        return [(a + b) / 2 for a, b in zip(forward, backward, strict=True)]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
