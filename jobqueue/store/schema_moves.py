"""Moves the schema with alembic. Apart from `migrate`, because its import takes half a second."""

import threading
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.exc import DBAPIError

from jobqueue.errors import Internal, JobQueueError
from jobqueue.store.faults import DRIVER_ERRORS, sqlstate, translate

_BLOCKED = {"55P03", "40P01", "40001"}
"""A lock was not to be had in time, or only by two who waited for each other: nothing was done."""

# Alembic keeps the migration that runs in globals of its own.
_ONE_AT_A_TIME = threading.Lock()


def script_location() -> Path:
    """Return the folder of the migrations: in the wheel, or beside the package in a checkout."""
    shipped = Path(str(resources.files("jobqueue"))) / "_alembic"
    return (
        shipped if shipped.is_dir() else Path(str(resources.files("jobqueue"))).parent / "alembic"
    )


def alembic_config() -> Config:
    """Return what alembic needs to find the migrations."""
    config = Config()
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def upgraded(dsn: str, target: str) -> bool:
    """Move the schema up, in this thread; False when a lock was not to be had.

    Raises Internal, Unavailable or their like when the database refuses; nothing was done then.
    """
    return _moved(command.upgrade, dsn, target)


def downgraded(dsn: str, target: str) -> bool:
    """Move the schema down, otherwise as ``upgraded``."""
    return _moved(command.downgrade, dsn, target)


def _moved(move: Callable[[Config, str], None], dsn: str, target: str) -> bool:
    config = alembic_config()
    config.attributes["dsn"] = dsn
    try:
        with _ONE_AT_A_TIME:
            move(config, target)
    except (DBAPIError, *DRIVER_ERRORS) as error:
        cause = _driver_error(error)
        if sqlstate(cause) in _BLOCKED:
            return False
        raise _refusal(cause) from cause
    return True


def _driver_error(error: BaseException) -> BaseException:
    """Return what asyncpg raised: SQLAlchemy wraps it twice, and adds the statement to its text."""
    wrapper = getattr(error, "orig", None)
    return getattr(wrapper, "__cause__", None) or wrapper or error


def _refusal(cause: BaseException) -> JobQueueError:
    """Return the error of ours, with the driver's words where ours would say nothing."""
    ours = translate(cause)
    if not isinstance(ours, Internal):
        return ours
    words = next(iter(str(cause).splitlines()), type(cause).__name__)
    return Internal(f"the database refused the migration: {words}")
