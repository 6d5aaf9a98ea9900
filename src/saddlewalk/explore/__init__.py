"""Pages for the browser: one file that shows runs, sweeps and live flows, without server or network."""

from saddlewalk.explore.page import write_page as write_page
from saddlewalk.explore.runs import network_of_run as network_of_run
from saddlewalk.explore.settings import default_networks as default_networks
from saddlewalk.explore.settings import network_of_setting as network_of_setting
from saddlewalk.explore.stores import network_of_store as network_of_store
