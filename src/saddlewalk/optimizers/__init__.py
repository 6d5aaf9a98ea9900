"""What moves weights in finite steps: `train` takes these, `predict` knows what each does to AGF."""

from saddlewalk.optimizers.adam import Adam as Adam
from saddlewalk.optimizers.adam import AdamW as AdamW
from saddlewalk.optimizers.base import AbstractOptimizer as AbstractOptimizer
from saddlewalk.optimizers.base import Memory as Memory
from saddlewalk.optimizers.base import Tensors as Tensors
from saddlewalk.optimizers.descent import GradientDescent as GradientDescent
from saddlewalk.optimizers.descent import Momentum as Momentum
from saddlewalk.optimizers.foreign import Optax as Optax
from saddlewalk.optimizers.muon import Muon as Muon
from saddlewalk.optimizers.named import OPTIMIZERS as OPTIMIZERS
from saddlewalk.optimizers.named import as_optimizer as as_optimizer
from saddlewalk.optimizers.named import optimizer_named as optimizer_named
from saddlewalk.optimizers.signs import NormalizedDescent as NormalizedDescent
from saddlewalk.optimizers.signs import SignDescent as SignDescent
