/* System calls for the data path without libc's wrappers: recv() and send() of libc are
 * cancellation points, which costs some 50 instructions in a process with threads, and syscall()
 * moves every argument. */
#pragma once
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the kernel's result, -errno on failure; does not set errno. */
static inline long syscall6(long number, long a, long b, long c, long d, long e, long f)
{
#ifdef __x86_64__
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#else
	long result = syscall(number, a, b, c, d, e, f);

	return result < 0 ? -errno : result;
#endif
}
