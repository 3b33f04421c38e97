/* Features that this kernel lacks: one emulated for another machine has no io_uring at all. */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of an engine or a store; what is not tested is said. */
static inline bool is_here(const char *name)
{
	if (strncmp(name, "io_uring", 8) || syscall(SYS_io_uring_setup, 0, NULL) == 0 ||
	    errno != ENOSYS)
		return true;
	printf("skipped: %s, as io_uring_setup() is unknown to this kernel (ENOSYS)\n", name);
	return false;
}
