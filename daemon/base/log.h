/* The log: lines on stderr, with priorities `<N>` if that is the journal.  Any thread.
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

void log_write(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* log_write() about a listener, whose name it puts before the message. */
#define log_listener(level, name, format, ...)                                                     \
	log_write(level, "listener '%s': " format, name, ##__VA_ARGS__)

#define log_error(...)   log_write(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_info(...)    log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_DEBUG, __VA_ARGS__)

/* Limits how often a message is logged, to ten in a second.  The caller keeps a zeroed static
 * struct.  True: write the message; the number that was not written before it has been logged. */
struct log_limit {
	_Atomic uint64_t window_ns;
	_Atomic unsigned written, missed;
};
bool log_limited(struct log_limit *limit);
