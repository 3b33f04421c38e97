/* The log.  State: the level and the destination, set once by log_open().  See log.h. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "printable.h"
#include "util.h"

enum { LOG_LINE_MAX = 1024, LOG_BURST = 10, LOG_WAIT_MS = 100 };
static _Atomic int log_level = LOG_INFO;
static bool log_prefixed; /* stderr is the journal: lines begin with `<PRIORITY>` */
static int log_fd = STDERR_FILENO;

/* Held while a line is written; protects log_full and log_lost. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static bool log_full;     /* the last line could not be written */
static unsigned log_lost; /* lines lost since the last line that was written */

/* Is stderr the journal?  systemd.exec(5): JOURNAL_STREAM holds device:inode of the stream to which
 * stderr was connected at the start. */
static bool log_stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2)
		return false;
	return fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_set_level(int level)
{
	atomic_store_explicit(&log_level, level, memory_order_relaxed);
}

int log_get_level(void)
{
	return atomic_load_explicit(&log_level, memory_order_relaxed);
}

/* Reopens a pipe or terminal with O_NONBLOCK, since setting it on stderr itself would affect all
 * processes that share the open file.  If it cannot be reopened, it is polled before each write,
 * which may still block if another process writes at the same moment. */
static void log_open_stderr(void)
{
	struct stat st;
	int fd;

	if (log_fd != STDERR_FILENO || fstat(STDERR_FILENO, &st) < 0 ||
	    !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return;
	fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0)
		log_fd = fd;
}

void log_open(int level)
{
	log_set_level(level);
	log_open_stderr();
	/* Not by INVOCATION_ID, which a terminal inherits from whatever service it runs in. */
	log_prefixed = log_stderr_is_journal();
}

/* Writes a line.  False: the pipe is full because its reader does not read.  The
 * first write that finds it full waits up to LOG_WAIT_MS, since the reader may only
 * be slow; later ones do not wait. */
static bool log_write_line(const char *line, size_t length)
{
	struct pollfd room = { .fd = log_fd, .events = POLLOUT };

	ssize_t n = 0;

	if (poll(&room, 1, log_full ? 0 : LOG_WAIT_MS) != 0)
		n = write(log_fd, line, length);
	log_full = n < 0 ? errno == EAGAIN : (size_t)n < length;
	return !log_full;
}

void log_write(int level, const char *format, ...)
{
	char text[LOG_LINE_MAX], line[LOG_LINE_MAX + 32], lost[64];
	int length, lost_length;
	va_list args;

	if (level > log_get_level())
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printable_clean(text);
	if (log_prefixed)
		length = snprintf(line, sizeof(line), "<%d>%s\n", level, text);
	else
		length = snprintf(line, sizeof(line), "nbserved: %s%s\n",
				  level <= LOG_ERR ? "error: " : "", text);
	pthread_mutex_lock(&log_lock);
	if (log_lost) {
		lost_length =
			snprintf(lost, sizeof(lost), "%s%u messages lost: stderr was not read\n",
				 log_prefixed ? "<4>" : "nbserved: ", log_lost);
		if (log_write_line(lost, (size_t)lost_length))
			log_lost = 0;
	}
	if (log_lost || !log_write_line(line, (size_t)length))
		log_lost++;
	pthread_mutex_unlock(&log_lock);
}

bool log_limited(struct log_limit *limit)
{
	uint64_t now = clock_ns(), since = atomic_load(&limit->window_ns);
	unsigned missed;

	if (now - since >= NS_PER_S &&
	    atomic_compare_exchange_strong(&limit->window_ns, &since, now))
		atomic_store(&limit->written, 0);
	if (atomic_fetch_add(&limit->written, 1) >= LOG_BURST) {
		atomic_fetch_add(&limit->missed, 1);
		return false;
	}
	missed = atomic_exchange(&limit->missed, 0);
	if (missed)
		log_info("%u message%s of the same kind as the next one suppressed (rate limit)",
			 missed, plural(missed));
	return true;
}
