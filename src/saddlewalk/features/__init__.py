"""What was learned: features of networks and of kernel machines (FACT, AGOP)."""

from saddlewalk.features.estimators import RFMClassifier as RFMClassifier
from saddlewalk.features.estimators import RFMRegressor as RFMRegressor
