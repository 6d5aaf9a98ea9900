"""The only door to the ODE solvers."""

from saddlewalk.ode.alone import advance_alone as advance_alone
from saddlewalk.ode.chebyshev import Chebyshev as Chebyshev
from saddlewalk.ode.integrate import METHODS as METHODS
from saddlewalk.ode.integrate import Integration as Integration
from saddlewalk.ode.integrate import Piece as Piece
from saddlewalk.ode.integrate import Stepper as Stepper
from saddlewalk.ode.integrate import integrate as integrate
from saddlewalk.ode.integrate import integrate_batch as integrate_batch
from saddlewalk.ode.integrate import stack_arrays as stack_arrays
from saddlewalk.ode.integrate import stacked as stacked
from saddlewalk.ode.integrate import unstacked as unstacked
from saddlewalk.ode.method import AbstractMethod as AbstractMethod
from saddlewalk.ode.rosenbrock import Rosenbrock as Rosenbrock
from saddlewalk.ode.runge_kutta import RungeKutta as RungeKutta
from saddlewalk.ode.system import AbstractFlow as AbstractFlow
from saddlewalk.ode.system import Watch as Watch
