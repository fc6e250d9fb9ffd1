"""Files of a run."""

import pytest

from pipeline.errors import DataError
from pipeline.storage import Folder, check_name


def test_objects_appear_whole_or_not_at_all(tmp_path):
    """An unfinished write leaves no object under the name."""
    folder = Folder(str(tmp_path))
    folder.write("a/b.json", b"{}")
    (tmp_path / "a" / ".unfinished-c.json").write_bytes(b"{")

    assert folder.child("a").names() == ["b.json"]


def test_a_missing_folder_is_empty(tmp_path):
    """Reading before anything was written finds nothing, without an error."""
    folder = Folder(str(tmp_path / "none"))

    assert (folder.names(), folder.folders(), folder.has("x")) == ([], [], False)


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".hidden", "a..b", "x" * 129, "naïve"])
def test_names_that_could_leave_their_folder_are_refused(name):
    """A name is one plain component."""
    with pytest.raises(DataError, match="a run's name must be"):
        check_name(name, "a run's name")


def test_broken_files_are_named(tmp_path):
    """An unreadable JSON or Parquet object names itself."""
    folder = Folder(str(tmp_path))
    folder.write("x.json", b"{")
    folder.write("x.parquet", b"PAR1")

    with pytest.raises(DataError, match=r"x\.json must be JSON"):
        folder.read_json("x.json")
    with pytest.raises(DataError, match=r"x\.parquet must be a whole Parquet file"):
        folder.read_table("x.parquet")
