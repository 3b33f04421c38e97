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

#include "journal.h"
#include "printable.h"
#include "util.h"

enum { LOG_LINE_MAX = 1024, LOG_BURST = 10, LOG_WAIT_MS = 100 };
enum log_target { LOG_TO_STDERR, LOG_TO_STDERR_PREFIXED, LOG_TO_JOURNAL };

static _Atomic int log_level = LOG_INFO;
static enum log_target log_target = LOG_TO_STDERR;
static int log_fd = STDERR_FILENO;

/* Held while a line is written; protects log_full and log_lost. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static bool log_full;     /* the last line could not be written */
static unsigned log_lost; /* lines lost since the last line that was written */

/* Is stderr the journal?  systemd.exec(5): JOURNAL_STREAM holds device:inode of the stream to which
 * stderr was connected at the start. */
static int log_stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2)
		return 0;
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
	if (!log_stderr_is_journal())
		log_target = LOG_TO_STDERR;
	else if (journal_open(JOURNAL_SOCKET) == 0)
		log_target = LOG_TO_JOURNAL;
	else
		log_target = LOG_TO_STDERR_PREFIXED;
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

static void log_stderr(int level, const char *text)
{
	char line[LOG_LINE_MAX + 32], lost[64];
	int length;

	if (log_target == LOG_TO_STDERR_PREFIXED)
		length = snprintf(line, sizeof(line), "<%d>%s\n", level, text);
	else
		length = snprintf(line, sizeof(line), "nbserved: %s%s\n",
				  level <= LOG_ERR ? "error: " : "", text);
	pthread_mutex_lock(&log_lock);
	if (log_lost) {
		int n = snprintf(
			lost, sizeof(lost), "%s%u messages lost: stderr was not read\n",
			log_target == LOG_TO_STDERR_PREFIXED ? "<4>" : "nbserved: ", log_lost);

		if (log_write_line(lost, (size_t)n))
			log_lost = 0;
	}
	if (log_lost || !log_write_line(line, (size_t)length))
		log_lost++;
	pthread_mutex_unlock(&log_lock);
}

/* Sends a message with fields; a field that is unknown is NULL and is left out. */
static void log_journal(int level, const char *text, const char *listener, const char *connection,
			const char *peer)
{
	char priority[12];
	const struct journal_field fields[] = {
		{ "PRIORITY", priority },
		{ "SYSLOG_IDENTIFIER", program_invocation_short_name },
		{ "LISTENER", listener },
		{ "PEER", peer },
		{ "CONNECTION", connection },
		{ "MESSAGE", text },
	};

	snprintf(priority, sizeof(priority), "%d", level);
	journal_send(fields, ARRAY_SIZE(fields));
}

__attribute__((format(printf, 5, 0))) static void log_message(int level, const char *listener,
							      const char *connection,
							      const char *peer, const char *format,
							      va_list args)
{
	char text[LOG_LINE_MAX];

	if (level > log_get_level())
		return;
	vsnprintf(text, sizeof(text), format, args);
	printable_clean(text);
	if (log_target != LOG_TO_JOURNAL)
		log_stderr(level, text);
	else
		log_journal(level, text, listener, connection, peer);
}

void log_write(int level, const char *listener, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_message(level, listener, NULL, NULL, format, args);
	va_end(args);
}

void log_connection(int level, const char *listener, uint64_t connection, const char *peer,
		    const char *format, ...)
{
	char number[24];
	va_list args;

	snprintf(number, sizeof(number), "%llu", (unsigned long long)connection);
	va_start(args, format);
	log_message(level, listener, number, peer, format, args);
	va_end(args);
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
