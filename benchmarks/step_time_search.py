"""A plain search for constants: Nelder and Mead's simplex over logarithms, pulled towards where it starts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

Point = list[float]
_FIRST_STEP = 0.15


def fitted(start: dict[str, float], loss: Callable[[dict[str, float]], float], *, pull: float) -> dict[str, float]:
    """The constants near ``start`` that make ``loss`` small; ``pull`` times a change's squared logarithm is added."""

    def values(point: Point) -> dict[str, float]:
        return {name: value * math.exp(x) for (name, value), x in zip(start.items(), point, strict=True)}

    def cost(point: Point) -> float:
        return loss(values(point)) + pull * sum(x * x for x in point)

    return values(simplex(cost, len(start)))


def simplex(cost: Callable[[Point], float], size: int, turns: int = 60) -> Point:
    """The lowest point found from the origin, in ``turns`` turns for each dimension."""
    points = [[0.0] * size] + [[_FIRST_STEP * (i == j) for j in range(size)] for i in range(size)]
    corners = sorted((cost(point), point) for point in points)
    for _ in range(turns * size):
        corners.sort()
        worst_cost, worst = corners[-1]
        middle = [sum(point[i] for _, point in corners[:-1]) / size for i in range(size)]

        def beyond(share: float, worst: Point = worst, middle: Point = middle) -> tuple[float, Point]:
            point = [m + share * (m - w) for m, w in zip(middle, worst, strict=True)]
            return cost(point), point

        turned = beyond(1.0)
        if turned[0] < corners[0][0]:
            corners[-1] = min(turned, beyond(2.0))
        elif turned[0] < corners[-2][0]:
            corners[-1] = turned
        elif (inside := beyond(-0.5))[0] < worst_cost:
            corners[-1] = inside
        else:
            best = corners[0][1]
            shrunk = [[(x + b) / 2 for x, b in zip(point, best, strict=True)] for _, point in corners[1:]]
            corners = [corners[0], *((cost(point), point) for point in shrunk)]
    return min(corners)[1]
