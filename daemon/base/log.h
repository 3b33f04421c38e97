/* The log.  If stderr is the journal: messages with fields; if it is a pipe to a service manager:
 * lines with `<N>` priorities; else plain text lines.  Any thread.
 *
 * Form of a message: what, object, why: `listener 'nbd': bind 0.0.0.0:10809: Address in use`. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <syslog.h>

/* Chooses the destination.  level: LOG_ERR .. LOG_DEBUG; less urgent messages are dropped. */
void log_open(int level);
void log_set_level(int level);
int log_get_level(void);

/* listener: the LISTENER= field, or NULL. */
void log_write(int level, const char *listener, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* log_write() about a listener, whose name it puts before the message and evaluates twice. */
#define log_listener(level, name, format, ...)                                                     \
	log_write(level, name, "listener '%s': " format, name, ##__VA_ARGS__)

/* log_write() about one connection: adds the fields CONNECTION= and PEER=. */
void log_connection(int level, const char *listener, uint64_t connection, const char *peer,
		    const char *format, ...) __attribute__((format(printf, 5, 6)));

#define log_error(...)   log_write(LOG_ERR, NULL, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, NULL, __VA_ARGS__)
#define log_info(...)    log_write(LOG_INFO, NULL, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_DEBUG, NULL, __VA_ARGS__)

/* Limits how often a message is logged, to ten in a second.  The caller keeps a zeroed static
 * struct.  True: write the message; the number that was not written before it has been logged. */
struct log_limit {
	_Atomic uint64_t window_ns;
	_Atomic unsigned written, missed;
};
bool log_limited(struct log_limit *limit);
