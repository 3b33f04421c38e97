/* See link_watch.h. */
#include "link_watch.h"

#include <sys/socket.h>

#include "nic.h"
#include "nic_link.h"
#include "nic_traffic.h"
#include "util.h"

enum { SAMPLES_MAX = 256, STEP_MS = 100 };

/* The interfaces that have an address, or the cards below them. */
static json_t *names_here(void)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	json_t *made = json_array();
	struct nic_names names = { 0 };

	for (unsigned i = 0; i < ARRAY_SIZE(families); i++) {
		const struct sockaddr_storage any = { .ss_family = families[i] };

		nic_names_add(&nic_host, &any, &names);
	}
	for (unsigned i = 0; i < names.count; i++)
		json_array_append_new(made, json_string(names.list[i]));
	return made;
}

static void take(struct link_watch *w)
{
	uint64_t now_ns = clock_ns();
	json_t *document = json_pack("{s:I}", "uptime_ns", (json_int_t)now_ns);

	nic_traffic_add(document, w->names);
	json_array_append_new(w->documents, document);
	w->next_ns = now_ns + w->step_ns;
}

/* Makes room in a long run: drops every second sample, and doubles the interval. */
static void thin(struct link_watch *w)
{
	for (size_t i = 1; i < json_array_size(w->documents); i++)
		json_array_remove(w->documents, i);
	w->step_ns *= 2;
}

void link_watch_begin(struct link_watch *w, bool wanted)
{
	*w = (struct link_watch){ .step_ns = STEP_MS * NS_PER_MS };
	if (!wanted)
		return;
	w->names = names_here();
	w->documents = json_array();
	take(w);
}

void link_watch_look(struct link_watch *w, bool idle)
{
	if (!w->names)
		return;
	if (json_array_size(w->documents) == SAMPLES_MAX)
		thin(w);
	if (clock_ns() >= w->next_ns)
		take(w);
	while (idle && json_array_size(w->documents) > 1)
		json_array_remove(w->documents, 0);
}

json_t *link_watch_end(struct link_watch *w)
{
	const char *name;
	json_t *made = NULL, *nic;

	if (!w->names)
		return NULL;
	take(w);
	name = link_busiest(w->documents, w->names, 1);
	if (name) {
		nic = nic_describe(&nic_host, name);
		made = link_of(w->documents, name, nic, 0);
		json_object_set_new(made, "nic", nic);
	}
	json_decref(w->names);
	json_decref(w->documents);
	return made;
}
