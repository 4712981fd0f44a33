"""System calls of the daemon that fail on demand: tests/faults/faults.c, preloaded."""

import contextlib
import errno
import os
import shutil
import tempfile

import harness
from harness import until

LIBRARY = os.path.join(harness.BUILD, "faults.so")


class Faults:
    """A directory that configures which calls fail. Give `env` to a Home."""

    def __init__(self):
        if not os.path.exists(LIBRARY):
            raise harness.Skip("build/faults.so is not there (make build/faults.so)")
        self.dir = tempfile.mkdtemp(prefix="bl-faults-")
        os.chmod(self.dir, 0o777)   # the runtime of a root daemon has another uid

    @property
    def env(self):
        return {"LD_PRELOAD": LIBRARY, "BAILIFF_TEST_FAULTS": self.dir}

    def fail(self, call, part, error, count=1, fd=-1, link="-", skip=0):
        """From now on, after `skip` more, `count` such calls of this part fail (−1: all). error: an errno's name, or 0 for lost descriptors."""
        number = getattr(errno, error) if error else 0
        fresh = os.path.join(self.dir, "new")
        with open(fresh, "w") as f:
            f.write(f"bailiff-{part} {number} {count} {fd} {link} {skip}\n")
        os.chmod(fresh, 0o666)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.dir, f"{call}.done"))
        os.rename(fresh, os.path.join(self.dir, call))

    def done(self, call):
        """All configured failures have occurred."""
        return os.path.exists(os.path.join(self.dir, f"{call}.done"))

    def until_done(self, call):
        until(f"{call} has failed", lambda: self.done(call))

    def heal(self):
        for name in os.listdir(self.dir):
            os.unlink(os.path.join(self.dir, name))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)
