/* Service `nvme`: the controllers that a listener may have, and how many of them one client; the
 * ports that a host is told. */
#include "nvme_case.h"

#include <arpa/inet.h>

#include "service.h"
#include "transport.h"
#include "unit.h"

/* One client may have as many as are free, so that there are some for others. */
TEST(controllers_are_limited)
{
	static const struct in6_addr one = { .s6_addr = { 1 } }, other = { .s6_addr = { 2 } };
	static struct nvme_member *members[NVME_CONTROLLERS_MAX];
	struct nvme_connect connect = { .cntlid = NVME_CNTLID_NEW,
					.subnqn = "nqn.unit",
					.hostnqn = "nqn.host" };
	struct nvme_target *target;
	CLEANUP(disk_free) struct disk d;

	disk_new(&d, 16, 1, 32);
	target = d.t->worker.shared;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < NVME_CONTROLLERS_MAX; i++) {
			bool is_one = i <= NVME_CONTROLLERS_MAX / 2;
			bool room = i < NVME_CONTROLLERS_MAX / 2 ||
				    (!is_one && i <= NVME_CONTROLLERS_MAX * 3 / 4);
			uint64_t result;

			members[i] = calloc(1, sizeof(*members[i]));
			assert_non_null(members[i]);
			members[i]->worker = &d.t->worker;
			assert_int_equal(nvme_enter(target, members[i], &connect,
						    is_one ? one : other, &result),
					 room ? NVME_SUCCESS : NVME_CONNECT_BUSY);
		}
		for (unsigned i = 0; i < NVME_CONTROLLERS_MAX; i++)
			nvme_leave(members[i]);
	}
}

/* The zone of a link-local address is an interface of ours, and means another one to a host. */
TEST(a_port_is_told_without_a_zone)
{
	static const char address[] = "fe80::1 ";
	struct sockaddr_storage local = { .ss_family = AF_INET6 };
	struct service_place place = { .transport = &transport_tcp };
	struct sockaddr_in6 *sa = (struct sockaddr_in6 *)&place.sa;
	uint8_t page[2 * NVME_DISCOVERY_ENTRY] = { 0 };
	CLEANUP(disk_free) struct disk d;

	disk_new(&d, 16, 1, 32);
	*sa = (struct sockaddr_in6){ .sin6_family = AF_INET6,
				     .sin6_port = htons(4420),
				     .sin6_scope_id = 1 };
	assert_int_equal(inet_pton(AF_INET6, "fe80::1", &sa->sin6_addr), 1);
	nvme_ports_listen(d.t->worker.shared, &service_nvme, &place);
	assert_int_equal(nvme_ports_log("nqn.unit", &local,
					&(struct nvme_log_piece){ 0, page, sizeof(page) }),
			 sizeof(page));
	assert_memory_equal(page + NVME_DISCOVERY_ENTRY + 512, address, sizeof(address) - 1);
	nvme_ports_listen(d.t->worker.shared, &service_nvme, NULL);
}
