/* Service `nvme`: the controllers that a listener may have, and how many of them one client. */
#include "nvme_case.h"

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
			assert_int_equal(nvme_member_connect(target, members[i], &connect,
							     is_one ? one : other, &result),
					 room ? NVME_SUCCESS : NVME_CONNECT_BUSY);
		}
		for (unsigned i = 0; i < NVME_CONTROLLERS_MAX; i++)
			nvme_member_leave(members[i]);
	}
}
