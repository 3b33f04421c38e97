/* The table of services: one line each. */
#include "registry.h"

#include <string.h>

extern const struct service service_echo, service_discard, service_chargen, service_http,
	service_iperf3, service_nbd, service_nvme, service_rping, service_fio, service_netperf,
	service_perftest, service_perftest_lat, service_sockperf;

/* clang-format off */
const struct service *const services[] = {
	&service_echo,
	&service_discard,
	&service_chargen,
	&service_http,
	&service_iperf3,
	&service_nbd,
	&service_netperf,
	&service_nvme,
	&service_sockperf,
	&service_rping,
	&service_fio,
	&service_perftest,
	&service_perftest_lat,
	NULL,
};
/* clang-format on */

const struct service *service_find(const char *name)
{
	for (unsigned i = 0; services[i]; i++)
		if (!strcmp(services[i]->name, name))
			return services[i];
	return NULL;
}
