"""What is predicted. This folder never sees a training run."""

from saddlewalk.theory.prediction import predict as predict
