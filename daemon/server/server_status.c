/* The status line, for nbctl and for the service manager. */
#include <stdio.h>

#include "server.h"
#include "util.h"

struct server_words server_words(const struct server *s)
{
	static const enum listener_state others[] = { LISTENER_DRAINING, LISTENER_DRAINED,
						      LISTENER_UNAVAILABLE };
	unsigned counts[LISTENER_STATES] = { 0 };
	struct server_words words;
	int used;

	for (unsigned i = 0; i < s->listeners.count; i++)
		counts[s->listeners.list[i]->state]++;
	used = snprintf(words.text, sizeof(words.text), "%u listener%s", counts[LISTENER_SERVING],
			plural(counts[LISTENER_SERVING]));
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		if (counts[others[i]] > 0)
			used += snprintf(words.text + used, sizeof(words.text) - (size_t)used,
					 ", %u %s", counts[others[i]],
					 listener_state_names[others[i]]);
	return words;
}

static void notify_status(struct server *s, const char *before)
{
	notify(&s->notify, "%sSTATUS=Serving %s, generation %llu%s", before, server_words(s).text,
	       (unsigned long long)s->generation,
	       s->reload.refused ? "; the last reload was refused, see nbctl status" : "");
}

void server_notify_ready(struct server *s)
{
	notify_status(s, "READY=1\n");
}

void server_notify_status(struct server *s)
{
	if (!s->listeners.stopping)
		notify_status(s, "");
}
