"""Programs at places of a mesh: the GPU and the CTA of each place, and this program's own place.

Input: a mesh, bound to GPUs or not, and coordinates by axis name, which are ints, i32 scalars or tiles of them. Output: the same of
ranks. For example, on a mesh {"device": 2, "cluster": 4} that is bound:

    places = Places(mesh, bound, semantic)
    places.own                      {"device": rank, "cluster": program_id(0) % 4}
    places.gpu(coordinates)         the rank of the GPU: coordinates["device"]
    places.cta(coordinates)         the rank in the cluster: coordinates["cluster"]

Axes are of three kinds. A step along one of "devices" leads to another GPU, if the mesh is bound; along one "inside", to another
CTA of the cluster, or of the grid; all others, "outside", count clusters, and programs of different clusters do not synchronise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, reduce
from math import prod

import triton.language.core as tl

from .bound_mesh import bound_mesh, device_axes, has_programs
from .mesh import device_mesh, place_of
from .numbers import along, picked, product, total


class Places:
    """The places of `mesh`; `bound` is the same mesh with the table of this rank, or None.

    gpus, ctas, outside     the rank of the GPU, the rank in the cluster or in the grid, and the number of the cluster, of each
                            place in order
    """

    def __init__(self, mesh: device_mesh, bound: bound_mesh | None, semantic):
        self.mesh, self.bound, self.semantic = mesh, bound, semantic
        self._devices = device_axes(mesh) if bound is not None else ()
        self._inside = () if bound is not None and not has_programs(mesh) else mesh.launch_axes
        self._outside = tuple(axis for axis in zip(mesh.launch_dim_names, mesh.launch_shape)
                              if axis not in (*self._devices, *self._inside))
        at = [mesh._coordinates(number) for number in mesh.physical_ids]
        self.gpus, self.ctas, self.outside = (tuple(place_of([name for name, _ in axes], axes, one) for one in at)
                                              for axes in (self._devices, self._inside, self._outside))
        self._values = {"devices": self.gpus, "inside": self.ctas, "outside": self.outside}
        self._steps = {name: prod(mesh.shape[axis + 1:]) for axis, name in enumerate(mesh.dim_names)}
        self._extents = dict(zip(mesh.dim_names, mesh.shape))

    @property
    def has_clusters(self) -> bool:
        """True if the launch consists of clusters of such CTAs."""
        return bool(self._inside) and not self.mesh.is_block_mesh

    def leaves(self, names: Iterable[str], kind: str) -> bool:
        """True if steps along the mesh axes `names` lead to another GPU ("devices"), CTA ("inside") or cluster ("outside")."""
        values = self._values[kind]
        return any(values[place] != values[place - self._steps[name]] for name in names for place in range(len(values))
                   if place // self._steps[name] % self._extents[name])

    def conditions(self) -> list[tl.tensor]:
        """The conditions that select the CTAs and clusters of the mesh, on any GPU: i1 scalars, none for a condition that all
        programs meet."""
        if not self._inside:
            return []
        semantic, size, found = self.semantic, self.mesh.launch_size, []
        clusters = prod(extent for _, extent in self._outside)
        ctas, outside = sorted(set(self.ctas)), sorted(set(self.outside))
        if len(ctas) < size:
            rank = tl.program_id(0, _semantic=semantic)
            rank = rank if self.mesh.is_block_mesh else semantic.mod(rank, semantic.to_tensor(size))
            found.append(self._one_of(rank, ctas))
        if len(outside) < clusters:
            number = semantic.floordiv(tl.program_id(0, _semantic=semantic), semantic.to_tensor(size))
            found.append(self._one_of(semantic.mod(number, semantic.to_tensor(clusters)), outside))
        return found

    def _one_of(self, number: tl.tensor, values: Iterable[int]) -> tl.tensor:
        """An i1: true if a number is one of `values`."""
        semantic = self.semantic
        return reduce(semantic.or_, [semantic.equal(number, semantic.to_tensor(value)) for value in values])

    def gpu(self, coordinates: Mapping):
        """The rank of the GPU there."""
        return self._found(coordinates, self.gpus)

    def cta(self, coordinates: Mapping):
        """The rank in its cluster, or the number in its grid, of the CTA there."""
        return self._found(coordinates, self.ctas)

    def _found(self, coordinates: Mapping, values: tuple[int, ...]):
        """The entry of `values` for a place: a sum over the axes, if such a sum gives the table; else picked by the place's
        number."""
        by = {name: values[step] - values[0] if self._extents[name] > 1 else 0 for name, step in self._steps.items()}
        if all(value == values[0] + sum(place // step % self._extents[name] * by[name] for name, step in self._steps.items())
               for place, value in enumerate(values)):
            number = values[0]
            for name, step in by.items():
                if step:
                    number = total(number, product(coordinates[name], step, self.semantic), self.semantic)
            return number
        return picked(values, self._numbered(coordinates, self._extents), self.semantic)

    def _numbered(self, coordinates: Mapping, extents: Mapping[str, int]):
        number = 0
        for name, extent in extents.items():
            number = total(product(number, extent, self.semantic), coordinates[name], self.semantic)
        return number

    @cached_property
    def own(self) -> dict[str, tl.tensor]:
        """This program's coordinates along the axes of the mesh; those of its first place for a program that is not in it."""
        mesh, launch = self.mesh, self._of_launch()
        if (mesh.shape, mesh.dim_names) == (mesh.launch_shape, mesh.launch_dim_names):
            return launch
        number = self._number
        if mesh.physical_ids != tuple(range(prod(mesh.launch_shape))):
            physical, number = number, self.semantic.to_tensor(0)
            for place, one in enumerate(mesh.physical_ids[1:], 1):
                here = self.semantic.equal(physical, self.semantic.to_tensor(one))
                number = self.semantic.where(here, self.semantic.to_tensor(place), number)
        return along(number, mesh.dim_names, mesh.shape, self.semantic)

    @cached_property
    def is_member(self) -> tl.tensor | None:
        """An i1 scalar, true if this program is in the mesh; None if all programs of the launch are."""
        if len(self.mesh.physical_ids) == prod(self.mesh.launch_shape):
            return None
        return self._one_of(self._number, self.mesh.physical_ids)

    @cached_property
    def _number(self) -> tl.tensor:
        """This program's number in the mesh of the launch, row-major."""
        return self._numbered(self._of_launch(), dict(zip(self.mesh.launch_dim_names, self.mesh.launch_shape)))

    def _of_launch(self) -> dict[str, tl.tensor]:
        """This program's coordinates along the axes of the launch."""
        semantic, found = self.semantic, {}
        if self._devices:
            found |= along(self.bound.rank(semantic), *zip(*self._devices), semantic)
        if self._inside or self._outside:
            program = tl.program_id(0, _semantic=semantic)
            if self._inside:
                found |= along(program, *zip(*self._inside), semantic)
            if self._outside:
                clusters = semantic.floordiv(program, semantic.to_tensor(self.mesh.launch_size))
                found |= along(clusters, *zip(*self._outside), semantic)
        return found
