"""The scene of examples/nerf.py: two balls and a block on a floor, rendered by ray tracing.

Everything is inside the unit cube. A picture is a set of rays, each given by the points where it enters and leaves the
cube, and their colors.
"""

from __future__ import annotations

import numpy as np

CENTRE, DISTANCE, FOCAL = np.array([0.5, 0.5, 0.2]), 1.8, 2.6  # Target, distance, and focal length of cameras.
ROOM = np.array([1.0, 1.0, 0.5])  # Rays are clipped to the box from the origin to here, which contains all shapes.
SUN = np.array([0.45, -0.35, 0.82])
BALLS = (((0.36, 0.40, 0.27), 0.19), ((0.66, 0.22, 0.18), 0.10))  # Center and radius.
# Opposite corners; the first box is the floor.
BOXES = (((0.02, 0.02, 0.02), (0.98, 0.98, 0.08)), ((0.58, 0.52, 0.08), (0.86, 0.80, 0.43)))


def nearest(origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intersect rays (n, 3); return the nearest distance (n,) or infinity, the shape's index, and the normal (n, 3)."""
    far, normals = np.full((len(BALLS) + len(BOXES), len(origins)), np.inf), []
    for i, (centre, radius) in enumerate(BALLS):
        across = origins - centre
        half = (across * directions).sum(1)
        inside = half**2 - (across**2).sum(1) + radius**2
        t = -half - np.sqrt(np.maximum(inside, 0))
        far[i] = np.where((inside > 0) & (t > 1e-4), t, np.inf)
        normals.append((across + t[:, None] * directions) / radius)
    for i, (low, high) in enumerate(BOXES, len(BALLS)):
        a, b = (low - origins) / directions, (high - origins) / directions
        near = np.minimum(a, b)
        t, axis = near.max(1), near.argmax(1)
        far[i] = np.where((t < np.maximum(a, b).min(1)) & (t > 1e-4), t, np.inf)
        normals.append(-np.sign(directions) * (np.arange(3) == axis[:, None]))
    first = far.argmin(0)
    return far.min(0), first, np.stack(normals)[first, np.arange(len(origins))]


def painted(places: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Return the colors (n, 3) of points on shapes; each shape has two colors, in stripes, checks, or dots."""
    x, y, z = places.T
    one, two = ((places - centre).T / radius for centre, radius in BALLS)
    pattern = [
        np.sin(10 * np.arctan2(one[1], one[0]) + 9 * one[2]) > 0,
        (np.floor(6 * two[2]) + np.floor(np.arctan2(two[1], two[0]) * 18 / np.pi)) % 2 > 0,
        (np.floor(x * 16) + np.floor(y * 16)) % 2 > 0,
        (((places - BOXES[1][0]) / 0.07 % 1 - 0.5) ** 2).sum(1) < 0.34,
    ]
    colours = np.array([
        [(0.95, 0.90, 0.75), (0.75, 0.10, 0.12)], [(0.98, 0.80, 0.15), (0.15, 0.15, 0.20)],
        [(0.92, 0.92, 0.90), (0.20, 0.28, 0.36)], [(0.10, 0.45, 0.50), (0.95, 0.95, 0.85)],
    ])  # fmt: skip
    return colours[which, np.stack(pattern)[which, np.arange(len(x))].astype(int)]


def seen(origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return the colors (n, 3) of rays (n, 3): lit or shadowed surfaces, highlights on balls, white background."""
    far, which, normals = nearest(origins, directions)
    hit, sun = np.isfinite(far), SUN / np.linalg.norm(SUN)
    places = origins + np.where(hit, far, 0)[:, None] * directions
    lit = np.isinf(nearest(places + 1e-3 * normals, np.broadcast_to(sun, places.shape))[0])
    light = 0.35 + 0.65 * lit * np.maximum(normals @ sun, 0)
    between = sun - directions
    shine = np.maximum((normals * between).sum(1) / np.linalg.norm(between, axis=1), 0) ** 60
    colours = painted(places, which) * light[:, None] + (0.5 * shine * lit * (which < len(BALLS)))[:, None]
    return np.where(hit[:, None], np.clip(colours, 0, 1), 1.0)


def camera(turn: float, height: float, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return origins and directions (size * size, 3) of a picture's rays, row by row, for a camera at these angles."""
    back = np.array([np.cos(turn) * np.cos(height), np.sin(turn) * np.cos(height), np.sin(height)])
    right = np.array([-np.sin(turn), np.cos(turn), 0.0])
    steps = (np.arange(size) + 0.5) / size * 2 - 1
    across, up = np.meshgrid(steps, -steps)
    rays = across[..., None] * right + up[..., None] * np.cross(back, right) - FOCAL * back
    rays = rays.reshape(-1, 3) / np.linalg.norm(rays.reshape(-1, 3), axis=1, keepdims=True)
    return np.broadcast_to(CENTRE + DISTANCE * back, rays.shape), rays


def view(turn: float, height: float, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rays (size * size, 2, 3) of a view, from entering to leaving the room, and the colors of its pixels.

    A color is the mean of four rays. Rays that miss the room have both ends at the same point.
    """
    origins, directions = camera(turn, height, size)
    a, b = -origins / directions, (ROOM - origins) / directions
    near, far = np.minimum(a, b).max(1), np.maximum(a, b).min(1)
    ends = np.stack([near, np.maximum(near, far)], 1)[..., None]
    colours = seen(*camera(turn, height, 2 * size)).reshape(size, 2, size, 2, 3).mean((1, 3)).reshape(-1, 3)
    rays = origins[:, None] + ends * directions[:, None]
    return rays.astype(np.float32), colours.astype(np.float32)
