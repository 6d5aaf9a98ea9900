"""A family of units to copy: a (g·x) (w·x), a linear gate times a linear value, of order 3.

Copy this file to src/saddlewalk/units/, rename the class, export it in src/saddlewalk/units/__init__.py:
`pytest tests/test_units.py` tests it from then on. Order and kinks are found by trying.
"""

from saddlewalk.units import AbstractUnits, find_degree


class Gated(AbstractUnits):
    """One gated neuron a unit."""

    width: int

    @classmethod
    def example(cls):
        """A small network of these units, for contract tests and docs: units, inputs, outputs."""
        return cls(3), 4, 2

    def layers(self, inputs, outputs):
        """Shape of each weight of one unit; the last are those that the output is linear in."""
        return {"g": (inputs,), "w": (inputs,), "a": (outputs,)}

    def respond(self, weights, x):
        """Output `(outputs,)` of one unit for one input `(inputs,)`."""
        return weights["a"] * (weights["g"] @ x) * (weights["w"] @ x)


if __name__ == "__main__":
    print("order", find_degree(*Gated.example()))
