/* What changes on this host while something is measured, as JSON.  See host.h. */
#include <stdio.h>
#include <unistd.h>

#include "boot_id.h"
#include "host.h"

void host_network(char text[HOST_NETWORK_BYTES])
{
	char name[40] = "";

	if (*boot_id() && readlink("/proc/self/ns/net", name, sizeof(name) - 1) > 0)
		snprintf(text, HOST_NETWORK_BYTES, "%s %s", boot_id(), name);
	else
		*text = '\0';
}

json_t *host_read(pid_t pid, const char *listener)
{
	struct measure_machine machine;
	char list[256];
	cpu_set_t cpus;
	json_t *made;

	host_cpu(&machine);
	made = json_pack("{s:o}", "machine", measure_machine_to_json(&machine));
	if (pid <= 0)
		return made;
	json_object_set_new(made, "throttled", json_integer((json_int_t)host_throttled(pid)));
	host_listener_cpus(pid, listener, &cpus);
	if (host_cpus_text(&cpus, list, sizeof(list)))
		json_object_set_new(made, "listener_cpus", json_string(list));
	return made;
}
