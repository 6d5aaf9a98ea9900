"""Finite groups, their real irreducible representations, and functions on them as sums over these."""

from saddlewalk.groups.families import alternating as alternating
from saddlewalk.groups.families import cyclic as cyclic
from saddlewalk.groups.families import dihedral as dihedral
from saddlewalk.groups.families import octahedral as octahedral
from saddlewalk.groups.families import product as product
from saddlewalk.groups.families import quaternion as quaternion
from saddlewalk.groups.families import symmetric as symmetric
from saddlewalk.groups.fourier import fourier as fourier
from saddlewalk.groups.fourier import from_fourier as from_fourier
from saddlewalk.groups.fourier import present as present
from saddlewalk.groups.fourier import singular_values as singular_values
from saddlewalk.groups.generated import from_matrices as from_matrices
from saddlewalk.groups.generated import from_permutations as from_permutations
from saddlewalk.groups.group import Group as Group
from saddlewalk.groups.group import from_table as from_table
from saddlewalk.groups.named import group_named as group_named
from saddlewalk.groups.named import group_with_table as group_with_table
from saddlewalk.groups.representations import Representation as Representation
