/* See nic_traffic.h. */
#include "nic_traffic.h"

#include "json.h"
#include "nic.h"
#include "snmp.h"

void nic_traffic_add(json_t *document, const json_t *names)
{
	json_t *interfaces = json_array(), *name;
	struct snmp_counters tcp;
	struct nic_counters n;
	size_t i;

	json_array_foreach(names, i, name)
		if (nic_count(&nic_host, json_string_value(name), &n))
			json_array_append_new(
				interfaces,
				json_pack("{s:O, s:o, s:o, s:o, s:o}", "name", name,
					  "received_bytes", json_count(n.received_bytes),
					  "received_packets", json_count(n.received_packets),
					  "sent_bytes", json_count(n.sent_bytes), "sent_packets",
					  json_count(n.sent_packets)));
	snmp_read(&tcp);
	json_object_set_new(document, "interfaces", interfaces);
	json_object_set_new(document, "host_tcp",
			    json_pack("{s:o, s:o}", "segments_sent", json_count(tcp.segments_sent),
				      "segments_retransmitted",
				      json_count(tcp.segments_retransmitted)));
}
