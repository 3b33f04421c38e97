/* Spare descriptors: they refer to nothing useful, and are closed when a number
 * is needed.  See reserve.h. */
#include "reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { RESERVE_MAX = 32 };

static int reserve_fds[RESERVE_MAX];
static unsigned reserve_count, reserve_wanted;

void reserve_refill(void)
{
	while (reserve_count < reserve_wanted) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return;
		reserve_fds[reserve_count++] = fd;
	}
}

void reserve_open(unsigned count)
{
	reserve_wanted = count < RESERVE_MAX ? count : RESERVE_MAX;
	reserve_refill();
}

void reserve_close(void)
{
	reserve_wanted = 0;
	while (reserve_count > 0)
		close(reserve_fds[--reserve_count]);
}

bool reserve_use(int error)
{
	if ((error != EMFILE && error != ENFILE) || reserve_count == 0)
		return false;
	close(reserve_fds[--reserve_count]);
	return true;
}
