"""What is summed: one short file a family of units."""

from saddlewalk.units.activations import ACTIVATIONS as ACTIVATIONS
from saddlewalk.units.associative import ProductTree as ProductTree
from saddlewalk.units.associative import Recurrent as Recurrent
from saddlewalk.units.attention import LinearAttention as LinearAttention
from saddlewalk.units.base import AbstractUnits as AbstractUnits
from saddlewalk.units.base import Layer as Layer
from saddlewalk.units.convolution import Convolution as Convolution
from saddlewalk.units.deep import Deep as Deep
from saddlewalk.units.deep_diagonal import DeepDiagonal as DeepDiagonal
from saddlewalk.units.degree import find_degree as find_degree
from saddlewalk.units.dense import Dense as Dense
from saddlewalk.units.diagonal import Diagonal as Diagonal
from saddlewalk.units.incoming import find_incoming_degree as find_incoming_degree
from saddlewalk.units.kinks import is_smooth as is_smooth
from saddlewalk.units.pooled_convolution import PooledConvolution as PooledConvolution
from saddlewalk.units.powers import PowerOfSum as PowerOfSum
from saddlewalk.units.powers import QuadraticPair as QuadraticPair
from saddlewalk.units.relations import Relation as Relation
from saddlewalk.units.relations import find_relations as find_relations
from saddlewalk.units.self_attention import LinearSelfAttention as LinearSelfAttention
from saddlewalk.units.self_attention import SoftmaxSelfAttention as SoftmaxSelfAttention
from saddlewalk.units.traits import Traits as Traits
from saddlewalk.units.traits import traits_of as traits_of
