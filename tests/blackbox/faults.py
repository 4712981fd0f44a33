"""System calls of the daemon that fail on demand: tests/faults/faults.c, preloaded."""

import errno
import mmap
import os
import struct
import tempfile

import harness
from harness import until

LIBRARY = os.path.join(harness.BUILD, "faults.so")
ROWS, ROW = 16, 256
LINK = 128
FIELDS = struct.Struct(f"=7i32s32s{LINK}s")   # struct fault: lock, armed, error, count, fd, skip, done, call, comm, link
ARMED, DONE = 1, 6


class Faults:
    """A table that configures which calls fail. Give `env` to a Home."""

    def __init__(self):
        if not os.path.exists(LIBRARY):
            raise harness.Skip("build/faults.so is not there (make build/faults.so)")
        fd, self.path = tempfile.mkstemp(prefix="bl-faults-")
        os.fchmod(fd, 0o666)   # the runtime of a root daemon has another uid
        os.truncate(fd, ROWS * ROW)
        self.rows = mmap.mmap(fd, ROWS * ROW)
        os.close(fd)
        self.calls = []         # by row

    @property
    def env(self):
        return {"LD_PRELOAD": LIBRARY, "BAILIFF_TEST_FAULTS": self.path}

    def fail(self, call, part, error, count=1, fd=-1, link="-", skip=0, row=None):
        """From now on, after `skip` more, `count` such calls of this part fail (−1: all). error: an errno's name, 0 for lost descriptors, −N for
        a delay of N ms; of "clock", the seconds by which it is wrong. A call has one row of the table unless `row` names another."""
        row = row or call
        if row not in self.calls:
            self.calls.append(row)
        self.set(row, ARMED, 0)
        assert len(link) < LINK, f"{link} is too long for a row"
        number = error if isinstance(error, int) else getattr(errno, error)
        FIELDS.pack_into(self.rows, self.calls.index(row) * ROW, 0, 0, number, count, fd, skip, 0,
                         call.encode(), f"bailiff-{part}".encode(), link.encode())
        self.set(row, ARMED, 1)

    def set(self, call, member, value):
        struct.pack_into("=i", self.rows, self.calls.index(call) * ROW + 4 * member, value)

    def done(self, call):
        """All configured failures have occurred."""
        return FIELDS.unpack_from(self.rows, self.calls.index(call) * ROW)[DONE] == 1

    def until_done(self, call):
        until(f"{call} has failed", lambda: self.done(call))

    def heal(self):
        for call in self.calls:
            self.set(call, ARMED, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.rows.close()
        os.unlink(self.path)
