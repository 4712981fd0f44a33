"""Executes its arguments on a kernel that seems to have no Landlock: a seccomp filter refuses to make rulesets.

What an older kernel lacks can so be tested on a newer one, without a switch in the product that could weaken a sandbox.
"""

import ctypes
import errno
import os
import struct
import sys

LANDLOCK_CREATE_RULESET = 444   # on every architecture
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_NUMBER, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7fff0000, 0x00050000 | errno.EOPNOTSUPP


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    code = b"".join(struct.pack("HBBI", *row) for row in (
        (LOAD_NUMBER, 0, 0, 0), (JUMP_EQUAL, 0, 1, LANDLOCK_CREATE_RULESET), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)))
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    if os.geteuid() and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        sys.exit("no_new_privs")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        sys.exit(os.strerror(ctypes.get_errno()))
    os.execv(sys.argv[1], sys.argv[1:])


main()
