/* Service `nvme`: the ports that a Discovery log lists, and Discovery controllers. */
#include "nvme_tcp_case.h"

#include <arpa/inet.h>

#include "service.h"
#include "transport.h"
#include "unit.h"

enum { ENTRIES_MAX = 4 };

static struct service_endpoint place_at(const char *address, uint16_t port)
{
	struct service_endpoint place = { .transport = &transport_tcp };
	struct sockaddr_in *sa = (struct sockaddr_in *)&place.sa;

	*sa = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	assert_int_equal(inet_pton(AF_INET, address, &sa->sin_addr), 1);
	return place;
}

static void listen_at(struct nvme_target *target, uint16_t port)
{
	struct service_endpoint place = place_at("10.0.0.1", port);

	nvme_ports_listen(target, &service_nvme, &place);
}

/* The log of the subsystem as a host reads it that came by 10.0.0.9:4420. */
struct log {
	uint8_t page[(1 + ENTRIES_MAX) * NVME_DISCOVERY_ENTRY];
	uint64_t bytes, generation;
};

static void read_log(const struct nvme_target *target, struct log *ret)
{
	struct service_endpoint here = place_at("10.0.0.9", 4420);
	struct nvme_log_query query = { .local = here.sa, .bytes = sizeof(ret->page) };
	struct nvme_discovery_log log = nvme_ports_log(target, &query);

	memset(ret, 0, sizeof(*ret));
	ret->bytes = log.bytes;
	assert_int_equal(log.piece_bytes, log.bytes);
	memcpy(ret->page, log.piece, log.piece_bytes);
	free(log.piece);
	ret->generation = get_le64(ret->page);
	assert_int_equal(get_le64(ret->page + 8), ret->bytes / NVME_DISCOVERY_ENTRY - 1);
}

/* The zone of a link-local address is an interface of ours, and means another one to a host. */
TEST(a_port_is_told_without_a_zone)
{
	static const char address[] = "fe80::1 ";
	struct service_endpoint place = { .transport = &transport_tcp };
	struct sockaddr_in6 *sa = (struct sockaddr_in6 *)&place.sa;
	struct nvme_log_query query = { .bytes = 4 * NVME_DISCOVERY_ENTRY };
	struct nvme_discovery_log log;
	CLEANUP(disk_free) struct disk d;

	disk_new(&d, 16, 1, 32);
	*sa = (struct sockaddr_in6){ .sin6_family = AF_INET6,
				     .sin6_port = htons(4420),
				     .sin6_scope_id = 1 };
	assert_int_equal(inet_pton(AF_INET6, "fe80::1", &sa->sin6_addr), 1);
	query.local = place.sa;
	nvme_ports_listen(d.t->worker.shared, &service_nvme, &place);
	log = nvme_ports_log(d.t->worker.shared, &query);
	assert_int_equal(log.piece_bytes, 2 * NVME_DISCOVERY_ENTRY);
	assert_memory_equal(log.piece + NVME_DISCOVERY_ENTRY + 512, address, sizeof(address) - 1);
	free(log.piece);
}

/* The log may change after its size is known and before it is read. */
TEST(the_log_has_all_the_records_that_its_header_counts)
{
	const struct nvme_verb *verb = NULL;
	struct message m = { 0 };
	struct nvme_command *d;
	CLEANUP(disk_close) struct disk disk;

	disk_open(&disk, 16, 1);
	put_connect_to(&m, NVME_DISCOVERY_NQN, 0, 0, NVME_CNTLID_NEW, 8);
	say(&disk, &m, SIZE);
	for (unsigned i = 0; i < nvme_admin_verbs.count; i++)
		if (nvme_admin_verbs.list[i].opcode == NVME_GET_LOG)
			verb = &nvme_admin_verbs.list[i];
	d = nvme_command_get(nvme_of(disk.t->conn));
	d->verb = verb;
	d->sqe = (struct nvme_sqe){ .opcode = NVME_GET_LOG,
				    .flags = 0x40,
				    .cdw10 = 4095U << 16 | NVME_LOG_DISCOVERY,
				    .sgl = { .type = NVME_SGL_TRANSPORT, .length = 16384 } };
	assert_int_equal(verb->check(d), NVME_SUCCESS);
	listen_at(disk.t->worker.shared, 4421);
	assert_int_equal(verb->start(d), NVME_STARTED);
	assert_int_equal(d->page_bytes, (1 + get_le64(d->page + 8)) * NVME_DISCOVERY_ENTRY);
}

/* Each worker has a socket at the listener's address, which is one port. */
TEST(the_log_lists_the_ports_that_are_served)
{
	struct nvme_target *first, *second;
	struct reason reason;
	struct log log, after;
	CLEANUP(disk_free) struct disk d;

	disk_new(&d, 16, 1, 32);
	first = d.t->worker.shared;
	second = service_nvme.shared_new(&d.t->worker.options, "here", &reason);
	assert_ptr_equal(first->ports, second->ports);
	listen_at(first, 4420);
	for (unsigned worker = 0; worker < 2; worker++)
		listen_at(second, 4421);
	listen_at(first, NVME_TCP_DISCOVERY_PORT); /* not listed: it has another for namespaces */
	read_log(first, &log);
	assert_int_equal(log.bytes, 3 * NVME_DISCOVERY_ENTRY);
	read_log(second, &after);
	assert_memory_equal(&log, &after, sizeof(log));
	/* A listener that replaces another takes its ports. */
	nvme_ports_listen(second, &service_nvme, NULL);
	listen_at(second, 4422);
	read_log(first, &after);
	assert_int_equal(after.bytes, log.bytes);
	assert_int_not_equal(after.generation, log.generation);
	assert_memory_equal(after.page + 2 * NVME_DISCOVERY_ENTRY + 32, "4422 ", 5);
	nvme_ports_listen(first, &service_nvme, NULL);
	read_log(second, &after);
	assert_int_equal(after.bytes, 2 * NVME_DISCOVERY_ENTRY);
	service_nvme.shared_free(second);
}

/* ---- Controllers ---- */

/* Bits of Set Features 0Bh that a controller does not have. */
TEST(an_event_that_is_not_served_is_refused)
{
	static const struct {
		const char *subnqn;
		uint32_t events;
		uint16_t status;
	} cases[] = {
		{ "nqn.unit", 0x1ff, NVME_SUCCESS },
		{ "nqn.unit", 0x200, NVME_INVALID_FIELD | NVME_DNR },
		{ "nqn.unit", 0x80000000, NVME_INVALID_FIELD | NVME_DNR },
		{ NVME_DISCOVERY_NQN, 0x100, NVME_INVALID_FIELD | NVME_DNR },
		{ NVME_DISCOVERY_NQN, 0x01, NVME_INVALID_FIELD | NVME_DNR },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct message m = { 0 };
		struct heard h;
		size_t at = 0;
		CLEANUP(disk_close) struct disk d;

		disk_open(&d, 16, 1);
		put_connect_to(&m, cases[i].subnqn, 0, 0, NVME_CNTLID_NEW, 8);
		say(&d, &m, SIZE);
		m.bytes = d.t->out_bytes = 0;
		put_command(&m, NVME_SET_FEATURES, 0, 7, (uint32_t[]){ 0x0b, cases[i].events, 0 },
			    NULL, 0, 0);
		put_command(&m, NVME_GET_FEATURES, 0, 8, (uint32_t[]){ 0x0b, 0, 0 }, NULL, 0, 0);
		say(&d, &m, SIZE);
		h = hear(&d, &at, 0);
		assert_int_equal(h.status, cases[i].status);
		h = hear(&d, &at, 0);
		assert_int_equal(h.result, cases[i].status ? 0 : cases[i].events);
	}
}

/* With a Keep Alive Timeout it lasts as long as its host; without one it ends after two minutes of
 * silence, whatever is outstanding. */
TEST(a_discovery_controller_lasts_as_it_is_kept_alive)
{
	static const struct {
		uint32_t kato_ms;
		unsigned rounds, every_s; /* of keeping it alive */
		unsigned silence_s;       /* that ends it */
	} cases[] = { { 15000, 20, 14, 31 },
		      { 15000, 0, 0, 31 },
		      { 0, 20, 110, 241 },
		      { 0, 0, 0, 241 },
		      { 600000, 20, 590, 1201 } };

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct message m = { 0 };
		CLEANUP(disk_close) struct disk d;

		disk_open(&d, 16, 1);
		put_connect_to(&m, NVME_DISCOVERY_NQN, cases[i].kato_ms, 0, NVME_CNTLID_NEW, 8);
		say(&d, &m, SIZE);
		m.bytes = 0;
		put_command(&m, NVME_KEEP_ALIVE, 0, 4, (uint32_t[]){ 0, 0, 0 }, NULL, 0, 0);
		for (unsigned round = 0; round < cases[i].rounds; round++) {
			pass(&d, cases[i].every_s * (uint64_t)NS_PER_S);
			assert_non_null(d.t->conn);
			say(&d, &m, SIZE);
		}
		for (unsigned s = 0; s < cases[i].silence_s && d.t->conn; s++)
			pass(&d, NS_PER_S);
		assert_null(d.t->conn);
	}
}
