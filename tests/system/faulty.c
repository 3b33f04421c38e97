/* Preloaded into the daemon by tests: file calls of the store `threads` that fail as the file named
 * by FAULTY says, a line of words at a time: `fdatasync EIO`, `pwrite ENOSPC`, `pread short`; or
 * that wait as long as it says so: `pread wait`, `open wait` (of files named disk...), `again wait`
 * (of a file that is open), `sysctl wait` (of net.core, as a Doctor of UDP reads it).  `lseek
 * same`: the file system says that a hole begins wherever it is asked for one. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64 /* as in the daemon: open() is open64() here */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* The fault for this call: 0 for none, an errno, or -1 for a short transfer. */
static int asked(const char *call, bool *ret_wait)
{
	const char *path = getenv("FAULTY");
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
	char text[64] = "";
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	*ret_wait = false;
	if (n <= 0 || strncmp(text, call, strlen(call)) != 0)
		return 0;
	*ret_wait = strstr(text, "wait") != NULL;
	if (strstr(text, "ENOSPC"))
		return ENOSPC;
	return strstr(text, "EIO") ? EIO : -1;
}

static int fault(const char *call)
{
	bool wait;
	int what = asked(call, &wait);

	while (wait) {
		usleep(10000);
		what = asked(call, &wait);
	}
	return what;
}

int open(const char *path, int flags, ...)
{
	va_list args;
	int mode;

	if (strstr(path, "/disk"))
		fault("open");
	else if (!strncmp(path, "/proc/self/fd/", 14))
		fault("again");
	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* The form of open() without a mode under _FORTIFY_SOURCE. */
int __open64_2(const char *path, int flags)
{
	return open(path, flags, 0);
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen64");

	if (!strncmp(path, "/proc/sys/net/core/", 19))
		fault("sysctl");
	return real(path, mode);
}

off_t lseek(int fd, off_t offset, int whence)
{
	off_t (*real)(int, off_t, int) = dlsym(RTLD_NEXT, "lseek64");

	return whence == SEEK_HOLE && fault("lseek") ? offset : real(fd, offset, whence);
}

ssize_t preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	ssize_t (*real)(int, const struct iovec *, int, off_t) = dlsym(RTLD_NEXT, "preadv64");
	int what = fault("pread");
	struct iovec first = { iov->iov_base, iov->iov_len > 100 ? 100 : iov->iov_len };

	if (what > 0) {
		errno = what;
		return -1;
	}
	return what < 0 ? real(fd, &first, 1, offset) : real(fd, iov, count, offset);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	ssize_t (*real)(int, const struct iovec *, int, off_t, int) =
		dlsym(RTLD_NEXT, "pwritev64v2");
	int what = fault("pwrite");
	struct iovec first = { iov->iov_base, iov->iov_len > 100 ? 100 : iov->iov_len };

	if (what > 0) {
		errno = what;
		return -1;
	}
	return what < 0 ? real(fd, &first, 1, offset, flags) : real(fd, iov, count, offset, flags);
}

int fdatasync(int fd)
{
	int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
	int what = fault("fdatasync");

	if (what > 0) {
		errno = what;
		return -1;
	}
	return real(fd);
}
