"""What is predicted. This folder never sees a training run."""

from saddlewalk.theory import lazyrich as lazyrich
from saddlewalk.theory.prediction import THEORIES as THEORIES
from saddlewalk.theory.prediction import methods_of as methods_of
from saddlewalk.theory.prediction import predict as predict
from saddlewalk.theory.staircase import Assumption as Assumption
from saddlewalk.theory.staircase import Staircase as Staircase
