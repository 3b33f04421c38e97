"""System calls that fail, for one process."""

import ctypes
import os
import struct

NR_IO_URING_SETUP = 425  # on every architecture
NR_FDATASYNC = 75 if os.uname().machine == "x86_64" else 83
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000
BPF_LOAD_WORD, BPF_JUMP_IF_EQUAL, BPF_RETURN = 0x20, 0x15, 0x06


class SockFilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def deny(number, error):
    """A function that makes a system call fail with the error for this process from now on."""
    code = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (BPF_LOAD_WORD, 0, 0, 0),  # the number of the system call
            (BPF_JUMP_IF_EQUAL, 0, 1, number),
            (BPF_RETURN, 0, 0, SECCOMP_RET_ERRNO | error),
            (BPF_RETURN, 0, 0, SECCOMP_RET_ALLOW),
        )
    )
    buffer = ctypes.create_string_buffer(code, len(code))
    program = SockFilterProgram(len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)

    def deny_now():
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) < 0:
            raise OSError(ctypes.get_errno(), "prctl")

    deny_now.keep = buffer
    return deny_now
