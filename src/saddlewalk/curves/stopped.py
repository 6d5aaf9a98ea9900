"""Why a prediction or a simulation ended."""

from saddlewalk.show.words import Word


class Stopped(Word):
    """The reason, as a word for programs and a sentence for people."""

    NO_UTILITY = "no utility left", "no utility left: no dormant unit would lower the loss"
    NO_DORMANT = "no dormant units", "no dormant units: all are active, and at rest"
    LEARNED = "learned", "learned: hardly any loss is left"
    FIRST_STAGE = (
        "first stage",
        "first stage: what a deep network learns after its first escape is not predicted; train it",
    )
    SEPARATED = (
        "separated",
        "separated: every sample is on its right side; what follows goes with the logarithm of time: the "
        "loss falls about like 1/time, weights grow, directions turn, and units that are small go on growing",
    )
    CONVERGED = "converged", "converged: no unit has utility left that counts, or goes anywhere"
    SLOW = (
        "slow",
        "slow: a tiny unit still grows, but has no drive beside the first ones, and nothing more was waited "
        "for; convergence 0 goes on",
    )
    LIMIT = (
        "limit",
        "limit: the largest time or number of steps was reached, and something was still moving",
    )
    NO_STAIRCASE = (
        "no staircase",
        "no staircase is to be expected: steps do not shrink with the gradient, plateaus vanish with the "
        "scale, and the loss falls in one slide",
    )
    INTERRUPTED = "interrupted", "interrupted: this is the part that was computed"
    STALLED = (
        "stalled",
        "stalled: the velocity is not finite (as where a loss has no lowest value), or not smooth enough for "
        "any step",
    )
    DIVERGED = "diverged", "diverged: use a smaller learning rate"
