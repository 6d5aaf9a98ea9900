"""A figure to copy: the limit process of diagonal networks beside AGF at a finite scale.

Copy this file into the folder of its paper under src/saddlewalk/figures/, rename the function, add an `Entry`
to src/saddlewalk/figures/registry.py: `pytest tests/test_contract_figures.py` looks for it from then on, and
`saddlewalk reproduce NAME` runs it. Say in `differs=` of the entry what is not as in the paper. A figure that
is too large for a laptop takes `full: bool = False`.
"""

from saddlewalk.figures.claims import Claim, FigureResult, listed
from saddlewalk.precision import in_float64
from saddlewalk.show import draw
from saddlewalk.tasks import agf_figure_3
from saddlewalk.theory import predict
from saddlewalk.units import Diagonal


@in_float64
def figure_limit():
    """Fig 0: jump times of the limit process and of AGF at scale 1e-30."""
    limit, finite = (
        predict(agf_figure_3(), Diagonal(), 1e-30, method=m) for m in ("limit", "closed")
    )
    with draw.styled():
        figure, axes = draw.new_figure()
        draw.staircase(axes, limit, 1.25 * limit.jump_times[-1], label="limit")
        draw.staircase(
            axes, finite, 1.25 * finite.jump_times[-1], label="scale 1e-30", color=draw.OBSERVED
        )
        axes.legend()
    apart = [abs(a / b - 1) for a, b in zip(limit.jump_times, finite.jump_times, strict=True)]
    claims = (
        Claim(
            "units turn on in the same order",
            str([stage.units for stage in finite]),
            [stage.units for stage in finite] == [stage.units for stage in limit],
        ),
        Claim("jump times agree to 2%", listed(apart), max(apart) < 0.02),
    )
    return FigureResult("limit", "the limit process", claims, figure, {"apart": apart})


if __name__ == "__main__":
    print(figure_limit())
