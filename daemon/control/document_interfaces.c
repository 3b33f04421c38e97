/* Documents of network interfaces: which listeners are behind each, and what its
 * driver tells.  See document.h. */
#include <string.h>

#include "document_internal.h"
#include "listener.h"
#include "nic.h"
#include "server.h"

/* The interfaces of the addresses that it has bound, or if it is unavailable is to bind. */
static struct nic_names names_of(const struct listener *l)
{
	const struct listener_config *config = l->config;
	struct nic_names names = { 0 };

	for (unsigned i = 0; i < config->address_count; i++)
		nic_names_add(&nic_host, &config->addresses[i].sa, &names);
	return names;
}

static json_t *find(json_t *interfaces, const char *name)
{
	json_t *interface;
	size_t i;

	json_array_foreach(interfaces, i, interface)
		if (!strcmp(json_string_value(json_object_get(interface, "name")), name))
			return interface;
	return NULL;
}

static void add_listener(json_t *interfaces, const struct listener *l, const char *name, bool facts)
{
	json_t *interface = find(interfaces, name);

	if (!interface && json_array_size(interfaces) == NIC_NAMES_MAX)
		return;
	if (!interface) {
		interface = json_pack("{s:s, s:[]}", "name", name, "listeners");
		if (facts)
			json_object_set_new(interface, "nic", nic_describe(&nic_host, name));
		json_array_append_new(interfaces, interface);
	}
	json_array_append_new(json_object_get(interface, "listeners"), json_text(l->config->name));
}

json_t *document_interfaces(const struct server *s, bool facts)
{
	json_t *interfaces = json_array();

	for (unsigned i = 0; i < s->listeners.count; i++) {
		const struct listener *l = s->listeners.list[i];
		struct nic_names names = names_of(l);

		for (unsigned j = 0; j < names.count; j++)
			if (strcmp(names.list[j], "lo") != 0)
				add_listener(interfaces, l, names.list[j], facts);
	}
	return interfaces;
}
