"""Addresses of a control database: what is refused before anything connects, and a directory that has another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairpool.platform.data_directory import DataDirectory, PlatformError
from fairpool.platform.database_location import choose_location, kept_location, problem_with_location

FINE = "postgresql://fairpool:s3cret@db.example.com:5432/fairpool"


@pytest.mark.parametrize(
    ("location", "word"),
    [
        ("banana", "postgresql://"),
        ("postgresql://db.example.com", "names no database"),
        ("postgresql://db.example.com:abc/fairpool", "'abc'"),
        ("postgresql://db1:5432,db2:99999/fairpool", "'99999'"),
        (f"{FINE}?connect_timeout=5", "connect_timeout"),
        (f"{FINE}?sslmode=bogus", "sslmode"),
        (f"{FINE}?sslmode=verify-full", "sslrootcert"),
        (f"{FINE}?sslmode=verify-full&sslrootcert=/no/such/file", "/no/such/file"),
    ],
)
def test_what_cannot_be_an_address_is_refused_without_its_password(location: str, word: str) -> None:
    problem = problem_with_location(location)
    assert problem is not None
    assert word in str(problem)
    assert "s3cret" not in str(problem)


@pytest.mark.parametrize("location", [FINE, f"{FINE}?sslmode=require", "postgres://u@[::1]:5432,db2/x"])
def test_addresses_as_of_psql_are_accepted(location: str) -> None:
    assert problem_with_location(location) is None


def test_jobs_of_a_directory_stay_with_their_database(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    choose_location(directory, "postgresql://fairpool@mistyped/fairpool")
    choose_location(directory, FINE)
    assert kept_location(directory) == "postgresql://fairpool@db.example.com:5432/fairpool"
    directory.ledger.touch()
    choose_location(directory, f"{FINE}?sslmode=require")
    with pytest.raises(PlatformError, match="are in the control database"):
        choose_location(directory, "postgresql://fairpool@db.example.com:5432/empty")
