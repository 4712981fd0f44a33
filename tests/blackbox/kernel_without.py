"""kernel_without.py ERRNO CALL[,CALL…] PROGRAM ARG…: executes the program on a kernel that seems to lack these system calls.

A seccomp filter answers them with that error. This tests on a new kernel what an older one lacks or a container denies, without a
switch in the product that could weaken a sandbox.
"""

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_NUMBER, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7fff0000, 0x00050000


def numbers(names):
    """With the library that the daemon itself uses."""
    resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name
    found = {name: resolve(name.encode()) for name in names}
    missing = [name for name, number in found.items() if number < 0]
    if missing:
        sys.exit(f"no such system call: {' '.join(missing)}")
    return found.values()


def main():
    error, calls, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    rows = [(LOAD_NUMBER, 0, 0, 0)]
    for number in numbers(calls.split(",")):
        rows += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE | getattr(errno, error))]
    code = b"".join(struct.pack("HBBI", *row) for row in rows + [(RETURN, 0, 0, ALLOW)])
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    if os.geteuid() and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        sys.exit("no_new_privs")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        sys.exit(os.strerror(ctypes.get_errno()))
    os.execv(command[0], command)


main()
