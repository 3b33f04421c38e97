/* The far end of -H, see bridge.c.  Functions that write replies to stdout return false when the
 * other end no longer reads them. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "client.h"
#include "varlink_frame.h"

/* The longest silence of the other end; then the bridge ends.  A connection alone would last for
 * ever when the other host loses its power. */
enum { BRIDGE_SILENCE_MS = 15 * 60 * 1000 };

struct bridge {
	struct client_target target; /* the daemon */
	int silence_ms;              /* 0: BRIDGE_SILENCE_MS */
	/* Answers a call of org.nbserved.Host; NULL: Describe alone is known. */
	bool (*answer)(struct bridge *b, const struct varlink_request *call, const char *method);
	/* Private to bridge.c. */
	struct client *daemon;        /* NULL: not connected */
	struct varlink_reader reader; /* of stdin */
};

/* Answers and relays calls until the other end has gone. */
void bridge_serve_calls(struct bridge *b);
/* From now on calls are relayed to the daemon with this socket, whose path outlives the bridge's
 * use of it.  The connection to the daemon before is closed. */
void bridge_set_socket(struct bridge *b, const char *socket);

/* Take ownership of reply, and of parameters. */
bool bridge_put(json_t *reply);
bool bridge_put_error(const char *name, json_t *parameters);
