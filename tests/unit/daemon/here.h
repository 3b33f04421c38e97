/* Features that this kernel lacks: one emulated for another machine has no io_uring at all. */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Does this kernel have the engine or store?  If not, the test is skipped with a message. */
static inline bool is_here(const char *name)
{
	if (strncmp(name, "io_uring", 8) || syscall(SYS_io_uring_setup, 0, NULL) == 0 ||
	    errno != ENOSYS)
		return true;
	printf("skipped: %s, as io_uring_setup() is unknown to this kernel (ENOSYS)\n", name);
	return false;
}
