"""Files of a run."""

import errno

import pyarrow as pa
import pytest

from pipeline.core.errors import DataError
from pipeline.store.storage import Folder, check_name, is_local, resolve


def test_objects_appear_whole_or_not_at_all(tmp_path):
    """An unfinished write leaves no object under the name."""
    folder = Folder(str(tmp_path))
    folder.write("a/b.json", b"{}")
    (tmp_path / "a" / ".unfinished-c.json").write_bytes(b"{")

    assert folder.child("a").names() == ["b.json"]


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


@pytest.fixture
def bucket():
    """A file system that is not the local one, as an object store is."""
    folder = Folder("fsspec+memory://bucket/runs")
    yield folder
    import fsspec

    fsspec.filesystem("memory").store.clear()


def test_another_file_system_is_used_by_its_address(bucket):
    """Objects are written, listed, moved and read alike; an object that is torn is named."""
    bucket.write("a/b.json", b"{}")
    bucket.write_table("a/t.parquet", pa.table({"x": [1, 2], "y": [3, 4]}))
    bucket.write("a/torn.parquet", b"PAR1")
    bucket.child("a").move("b.json", "c/b.json")
    folder = bucket.child("a")

    assert (folder.names(), folder.folders()) == (["t.parquet", "torn.parquet"], ["c"])
    assert folder.read_json("c/b.json") == {}
    assert folder.read_columns("t.parquet", ["y"]).to_pydict() == {"y": [3, 4]}
    assert folder.read_schema("t.parquet").names == ["x", "y"]
    for read in (folder.read_schema, lambda name: folder.read_columns(name, ["y"])):
        with pytest.raises(DataError, match=r"torn\.parquet must be a whole Parquet file"):
            read("torn.parquet")


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "FILE://{}", "{}"])
def test_a_local_folder_is_found_by_every_form_of_its_address(tmp_path, form):
    """A file: address is a URI, whose characters may be escaped; a path is taken as it is."""
    folder = tmp_path / "a b%20c #?é"
    folder.mkdir()
    path = str(folder) if form == "{}" else folder.as_uri().removeprefix("file://")
    address = form.format(path)

    assert is_local(address)
    assert resolve(address)[1] == str(folder)


@pytest.mark.parametrize("address", ["//[x/run", "s3://[x/run"])
def test_a_bracket_in_an_address_is_no_riddle(address):
    """What is no address at all is named, and a local path may hold any bracket."""
    if is_local(address):
        assert resolve(address)[1].endswith("/[x/run")
    else:
        with pytest.raises(DataError, match="a folder must be a local path, or s3://"):
            resolve(address)


def test_what_cannot_be_written_is_named(tmp_path, monkeypatch):
    """By the name that was asked for, and not by that of a file which only tries the folder."""

    def refused(dir):
        raise PermissionError(errno.EACCES, "Permission denied", f"{dir}/tmpx7")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    with pytest.raises(PermissionError, match=r"denied: '.*/report\.html'$"):
        Folder(str(tmp_path)).prepare("report.html")


def test_a_write_that_fails_leaves_nothing_half_written(tmp_path):
    """Neither the object nor a part of it stays behind."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").write_text("in the way")
    folder = Folder(str(tmp_path))

    with pytest.raises(OSError, match="directory"):
        folder.write("taken", b"data")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]
