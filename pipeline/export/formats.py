"""*Formats*: writes a run in a format by its name."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.core.errors import ConfigError
from pipeline.export.csv_tables import write_csv
from pipeline.export.hf_dataset import write_hf_dataset
from pipeline.export.inspect_log import write_inspect
from pipeline.export.lm_eval import write_lm_eval
from pipeline.export.source import Source, open_source
from pipeline.store.storage import Folder

FORMATS: dict[str, Callable[[Source, Folder], None]] = {
    "inspect": write_inspect,
    "lm_eval": write_lm_eval,
    "hf_dataset": write_hf_dataset,
    "csv": write_csv,
}
"""What writes a run into a folder."""


def export_run(address: str, to: str, out: str, exported: float, *, overwrite: bool) -> Source:
    """Export a run; returns what was exported.

    Args:
        address: of the run directory.
        to: a key of `FORMATS`.
        out: the folder to write.
        exported: the time, in seconds since 1970.
        overwrite: whether files of the same names in `out` are replaced; others stay.

    Raises:
        ConfigError: where `out` is there already.
        ConfigError, DataError: as `open_source`.
    """
    source = open_source(address, exported)
    folder = Folder(out.rstrip("/"))
    if not overwrite and (folder.exists() or _is_file(folder)):
        raise ConfigError(f"an export needs a new folder, {out} is there: add --overwrite")
    FORMATS[to](source, folder)
    return source


def _is_file(folder: Folder) -> bool:
    above, _, name = folder.address.rpartition("/")
    return Folder(above or ".").has(name)
