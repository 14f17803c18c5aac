"""Where training sets come from; each source returns one `Dataset`."""

from exhume.data.dataset import Dataset, load_dataset, save_dataset
from exhume.data.registry import SOURCES, DataRequest, load

__all__ = ["SOURCES", "DataRequest", "Dataset", "load", "load_dataset", "save_dataset"]
