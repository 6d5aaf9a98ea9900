"""What was learned: features of networks and of kernel machines (FACT, AGOP)."""

from saddlewalk.features.estimators import RFMClassifier as RFMClassifier
from saddlewalk.features.estimators import RFMRegressor as RFMRegressor
from saddlewalk.features.history import FeatureHistory as FeatureHistory
from saddlewalk.features.layers import LayerFeatures as LayerFeatures
from saddlewalk.features.networks import network_features as network_features
from saddlewalk.features.report import NetworkFeatures as NetworkFeatures
from saddlewalk.features.report import gradient_features as gradient_features
