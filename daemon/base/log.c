/* The log.  State: the level and where to, set once by log_open().  See log.h. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "journal.h"
#include "util.h"

enum { LOG_LINE_MAX = 1024, LOG_BURST = 10 };
enum log_target { LOG_TO_STDERR, LOG_TO_STDERR_PREFIXED, LOG_TO_JOURNAL };

static _Atomic int log_level = LOG_INFO;
static enum log_target log_target = LOG_TO_STDERR;

static const struct {
	int level;
	const char *name;
} log_levels[] = {
	{ LOG_ERR, "error" },
	{ LOG_WARNING, "warning" },
	{ LOG_INFO, "info" },
	{ LOG_DEBUG, "debug" },
};

const char *log_level_name(int level)
{
	for (size_t i = 0; i < ARRAY_SIZE(log_levels); i++)
		if (log_levels[i].level == level)
			return log_levels[i].name;
	return NULL;
}

int log_level_parse(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(log_levels); i++)
		if (!strcmp(log_levels[i].name, name))
			return log_levels[i].level;
	return -EINVAL;
}

/* systemd.exec(5): JOURNAL_STREAM holds device:inode of the stream that stderr was. */
static int log_stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2)
		return 0;
	return fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_open(int level)
{
	log_set_level(level);
	if (log_stderr_is_journal() && journal_open(JOURNAL_SOCKET) == 0)
		log_target = LOG_TO_JOURNAL;
	else if (getenv("INVOCATION_ID"))
		log_target = LOG_TO_STDERR_PREFIXED;
	else
		log_target = LOG_TO_STDERR;
}

void log_set_level(int level)
{
	atomic_store_explicit(&log_level, level, memory_order_relaxed);
}

int log_get_level(void)
{
	return atomic_load_explicit(&log_level, memory_order_relaxed);
}

static void log_stderr(int level, const char *text)
{
	if (log_target == LOG_TO_STDERR_PREFIXED)
		fprintf(stderr, "<%d>%s\n", level, text);
	else
		fprintf(stderr, "nbserved: %s%s\n", level <= LOG_ERR ? "error: " : "", text);
}

/* What is not known is NULL. */
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

void log_write(int level, const char *listener, const char *format, ...)
{
	char text[LOG_LINE_MAX];
	va_list args;

	if (level > log_get_level())
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (log_target != LOG_TO_JOURNAL)
		log_stderr(level, text);
	else
		log_journal(level, text, listener, NULL, NULL);
}

void log_connection(int level, const char *listener, uint64_t connection, const char *peer,
		    const char *format, ...)
{
	char text[LOG_LINE_MAX], number[24];
	va_list args;

	if (level > log_get_level())
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)connection);
	if (log_target != LOG_TO_JOURNAL)
		log_stderr(level, text);
	else
		log_journal(level, text, listener, number, peer);
}

int log_limited(struct log_limit *limit, unsigned *ret_missed)
{
	uint64_t now = clock_ns(), since = atomic_load(&limit->window_ns);

	if (now - since >= NS_PER_S &&
	    atomic_compare_exchange_strong(&limit->window_ns, &since, now))
		atomic_store(&limit->written, 0);
	if (atomic_fetch_add(&limit->written, 1) < LOG_BURST) {
		*ret_missed = atomic_exchange(&limit->missed, 0);
		return 1;
	}
	atomic_fetch_add(&limit->missed, 1);
	return 0;
}
