"""Which library computes, and where: NumPy on the CPU; PyTorch or JAX on an accelerator.

The machines are written for all three: they call what the libraries have in common. PyTorch compiles
nothing, so that a first fit takes as long as the next; JAX compiles every operation for every new size.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from saddlewalk.errors import InputError


@dataclass(frozen=True)
class Device:
    """Where arrays live.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    place : a device of PyTorch, or `None`.
    """

    xp: ModuleType = np
    place: Any = None

    @classmethod
    def named(cls, name: str) -> "Device":
        """By the name that the estimators take.

        Parameters
        ----------
        name : "cpu", "jax", "torch", or a device of PyTorch's.
        """
        if name == "cpu":
            return cls()
        if name == "jax":
            import jax.numpy as jnp

            return cls(jnp)
        if name == "torch" or str(name).partition(":")[0] in ("cuda", "mps", "xpu"):
            return cls._of_torch(name)
        raise InputError(
            f"device must be 'cpu' (NumPy), 'torch' (the GPU that PyTorch sees), a device of PyTorch's like "
            f"'cuda:1', or 'jax'; got {name!r}."
        )

    @classmethod
    def _of_torch(cls, name: str) -> "Device":
        try:
            import torch
        except ImportError:
            raise InputError(
                f"device={name!r} needs PyTorch: pip install 'saddlewalk[torch]', or take 'cpu'."
            ) from None
        if name == "torch":
            return cls(torch, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError) as problem:
            raise InputError(f"PyTorch has no device {name!r} here: {problem}") from None
        return cls(torch, torch.device(name))

    @property
    def accelerated(self) -> bool:
        """Whether there is more memory and speed for matrices than a CPU has."""
        return self.xp is not np and getattr(self.place, "type", "") != "cpu"

    def array(self, values: Any, dtype: str) -> Any:
        """Numbers there, in this precision.

        Parameters
        ----------
        values : an array of NumPy.
        dtype : "float32" or "float64".
        """
        if self.place is None:
            return self.xp.asarray(values, dtype=dtype)
        return self.xp.as_tensor(values, dtype=getattr(self.xp, dtype), device=self.place)

    @contextlib.contextmanager
    def precision(self, dtype: str) -> Iterator[None]:
        """JAX computes in float64, and float32 in full, inside the package's own contexts alone.

        Parameters
        ----------
        dtype : "float32" or "float64".
        """
        if self.xp is np or self.place is not None:
            yield
            return
        from saddlewalk.precision import exact_products, float64

        with exact_products(), float64() if dtype == "float64" else contextlib.nullcontext():
            yield


def on_host(values: Any) -> np.ndarray:
    """As an array of NumPy.

    Parameters
    ----------
    values : an array of any of the libraries.
    """
    return values.cpu().numpy() if hasattr(values, "cpu") else np.asarray(values)


def like(values: Any, model: Any) -> Any:
    """Numbers of NumPy as an array where another one is, in its precision.

    Parameters
    ----------
    values : an array of NumPy.
    model : the other one.
    """
    if hasattr(model, "new_tensor"):
        return model.new_tensor(values)
    if isinstance(model, np.ndarray):
        return np.asarray(values, model.dtype)
    import jax.numpy as jnp

    return jnp.asarray(values, dtype=model.dtype)
