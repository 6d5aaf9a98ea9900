"""What is predicted. This folder never sees a training run."""

from saddlewalk.theory.predict import METHODS as METHODS
from saddlewalk.theory.predict import predict as predict
