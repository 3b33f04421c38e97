/* Opening of files that a user has named: the kind is checked on the open descriptor, not on the
 * path, which may change.  See open_file.h. */
#include "open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Checks that fd is a file or block device: 0, -EISDIR or -ESPIPE. */
static int check_kind(int fd, bool or_device)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode) || (or_device && S_ISBLK(st.st_mode)))
		return 0;
	return S_ISDIR(st.st_mode) ? -EISDIR : -ESPIPE;
}

int open_file(const char *path, int flags, bool or_device, const char **ret_why)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640), rc;

	rc = fd < 0 ? -errno : check_kind(fd, or_device);
	/* O_NONBLOCK is for open() only and is cleared: io_uring fails requests that would block on
	 * an O_NONBLOCK file where the file system does not support non-blocking attempts. */
	if (rc == 0)
		rc = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0 ? -errno : 0;
	if (rc == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	if (rc ==
	    -ENXIO) /* open(2) of a socket, of a FIFO without a reader, or of a missing device */
		rc = -ESPIPE;
	if (rc != -ESPIPE)
		*ret_why = strerror(-rc);
	else
		*ret_why = or_device ? "Neither a regular file nor a block device"
				     : "Not a regular file";
	return rc;
}
