/* Private to the files of the control socket. */
#pragma once
#include "control.h"
#include "server.h"
#include "varlink.h"

#define INTERFACE "org.nbserved.Control"

/* The server that a call is about. */
static inline struct server *control_server(const struct varlink_call *call)
{
	return ((const struct control *)varlink_call_userdata(call))->server;
}

/* control_idl.c: the interface in Varlink's language, to be freed.  NULL: no memory. */
char *control_describe(void);

/* control_errors.c: answers org.nbserved.Control.NAME {listener, message}. */
void control_error(struct varlink_call *call, const char *name, const char *listener,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* True: no listener has one of names (a string, an array of them, or NULL), and the call has ended
 * with an error that says so. */
bool control_lacks_listener(struct varlink_call *call, const json_t *names);

/* control_stats.c */
enum { STATS_INTERVAL_MIN_MS = 50, STATS_INTERVAL_MS = 1000, STATS_INTERVAL_MAX_MS = 86400000 };
void control_get_stats(struct varlink_call *call, json_t *parameters);

/* control_doctor.c */
void control_doctor(struct varlink_call *call, json_t *parameters);
void control_doctor_stop(struct control *c); /* see control_stop() */

/* control_connections.c */
enum { CONNECTIONS_LIMIT = 100, CONNECTIONS_LIMIT_MAX = 10000 };
void control_list_connections(struct varlink_call *call, json_t *parameters);
