/* The log: the journal with fields when it is our stderr, else stderr with `<N>` priorities when
 * that is a pipe to a service manager, else plain text.  Any thread.
 *
 * Form of a message: what, object, why: `listener 'nbd': bind 0.0.0.0:10809: Address in use`. */
#pragma once
#include <stdint.h>
#include <syslog.h>

/* Decides where to; level: LOG_ERR .. LOG_DEBUG, less urgent messages are dropped. */
void log_open(int level);
void log_set_level(int level);
int log_get_level(void);

/* "error", "warning", "info", "debug"; NULL / -EINVAL when there is none. */
const char *log_level_name(int level);
int log_level_parse(const char *name);

/* listener: the LISTENER= field, or NULL. */
void log_write(int level, const char *listener, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* log_emit() about one connection: also the fields CONNECTION= and PEER=. */
void log_connection(int level, const char *listener, uint64_t connection, const char *peer,
		    const char *format, ...) __attribute__((format(printf, 5, 6)));

#define log_error(...)   log_write(LOG_ERR, NULL, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, NULL, __VA_ARGS__)
#define log_info(...)    log_write(LOG_INFO, NULL, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_DEBUG, NULL, __VA_ARGS__)

/* At most `burst` messages in a row, then one a second with the number that was left out.  Static
 * storage, zeroed; true: write the message, *ret_missed were dropped since the last. */
struct log_limit {
	_Atomic uint64_t window_ns;
	_Atomic unsigned written, missed;
};
int log_limited(struct log_limit *limit, unsigned *ret_missed);
