/* Service `nvme`: the ports that a Discovery log lists, and the event that it has changed. */
#include "nvme_tcp_case.h"

#include <arpa/inet.h>

#include "service.h"
#include "transport.h"
#include "unit.h"

enum { RETAIN_EVENT = 1 << 15, ENTRIES_MAX = 4 };

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
	ret->generation = log.generation;
	assert_int_equal(log.piece_bytes, log.bytes);
	memcpy(ret->page, log.piece, log.piece_bytes);
	free(log.piece);
	assert_int_equal(get_le64(ret->page), ret->generation);
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
	nvme_settle();
	log = nvme_ports_log(d.t->worker.shared, &query);
	assert_int_equal(log.piece_bytes, 3 * NVME_DISCOVERY_ENTRY);
	for (unsigned i = 1; i <= 2; i++)
		assert_memory_equal(log.piece + (size_t)i * NVME_DISCOVERY_ENTRY + 512, address,
				    sizeof(address) - 1);
	free(log.piece);
}

TEST(the_log_ends_with_the_discovery_subsystem_itself)
{
	struct nvme_log_query query = { .local.ss_family = AF_UNIX };
	struct nvme_discovery_log unix_log;
	const uint8_t *entry;
	struct log log;
	CLEANUP(disk_free) struct disk d;

	disk_new(&d, 16, 1, 32);
	listen_at(d.t->worker.shared, 4421);
	nvme_settle();
	read_log(d.t->worker.shared, &log);
	assert_int_equal(log.bytes, 3 * NVME_DISCOVERY_ENTRY);
	entry = log.page + 2 * NVME_DISCOVERY_ENTRY;
	assert_int_equal(entry[2], 3);
	assert_memory_equal(entry + 32, "4420 ", 5);
	assert_string_equal((const char *)entry + 256, NVME_DISCOVERY_NQN);
	assert_memory_equal(entry + 512, "10.0.0.9 ", 9);
	/* It has no address for a host that came by a Unix socket. */
	unix_log = nvme_ports_log(d.t->worker.shared, &query);
	assert_int_equal(unix_log.bytes, 2 * NVME_DISCOVERY_ENTRY);
	free(unix_log.piece);
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
	nvme_settle();
	assert_int_equal(verb->start(d), NVME_STARTED);
	assert_int_equal(d->page_bytes, (1 + get_le64(d->page + 8)) * NVME_DISCOVERY_ENTRY);
	assert_int_equal(get_le64(d->page), nvme_of(disk.t->conn)->log_generation);
	/* The call for the event: its member would outlive the connection. */
	mailbox_run(&disk.t->worker.mailbox);
}

/* A listener that is replaced ceases to serve before the other one begins. */
TEST(a_port_that_goes_to_another_listener_stays_in_the_log)
{
	struct nvme_target *first, *second;
	struct reason reason;
	struct log before, after;
	CLEANUP(disk_free) struct disk d;

	disk_new(&d, 16, 1, 32);
	first = d.t->worker.shared;
	second = service_nvme.shared_new(&d.t->worker.options, "here", &reason);
	assert_ptr_equal(first->ports, second->ports);
	listen_at(first, 4420);
	listen_at(first, 4421);
	assert_true(nvme_ports_settle(first->ports));
	read_log(first, &before);
	assert_int_equal(before.generation, 1);
	nvme_ports_listen(first, &service_nvme, NULL);
	read_log(first, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	for (unsigned worker = 0; worker < 2; worker++)
		for (uint16_t port = 4421; port >= 4420; port--)
			listen_at(second, port);
	assert_false(nvme_ports_settle(first->ports));
	read_log(second, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	/* One of them goes, for which another comes: one change. */
	nvme_ports_listen(second, &service_nvme, NULL);
	listen_at(first, 4420);
	listen_at(first, 4422);
	assert_true(nvme_ports_settle(first->ports));
	assert_false(nvme_ports_settle(first->ports));
	read_log(first, &after);
	assert_int_equal(after.generation, 2);
	assert_int_equal(after.bytes, before.bytes);
	assert_memory_equal(after.page + 2 * NVME_DISCOVERY_ENTRY + 32, "4422 ", 5);
	service_nvme.shared_free(second);
}

/* A port that no log lists comes and goes without a change. */
TEST(a_port_for_discovery_alone_is_no_change)
{
	struct nvme_target *target;
	CLEANUP(disk_free) struct disk d;

	disk_new(&d, 16, 1, 32);
	target = d.t->worker.shared;
	listen_at(target, 4420);
	assert_true(nvme_ports_settle(target->ports));
	listen_at(target, NVME_TCP_DISCOVERY_PORT);
	assert_false(nvme_ports_settle(target->ports));
	nvme_ports_listen(target, &service_nvme, NULL);
	listen_at(target, NVME_TCP_DISCOVERY_PORT);
	assert_true(nvme_ports_settle(target->ports)); /* now it is for the namespaces, too */
	assert_int_equal(nvme_ports_generation(target->ports), 2);
}

/* ---- The event ---- */

/* What happens, a letter each:
 * E, D	the host enables the event, disables it
 * A	it sends an Asynchronous Event Request
 * R, r	it reads the log; and retains the event
 * C	the log changes
 * P	a port goes from one listener to another, which is no change
 * X	it resets the controller: disables it and enables it again
 * x	it disables it */
static void step(struct disk *d, char letter, unsigned number)
{
	uint32_t enable[] = { 0x0b, letter == 'E' ? NVME_OAES_DISCOVERY : 0, 0 };
	uint32_t read[] = { 255U << 16 | NVME_LOG_DISCOVERY | (letter == 'r' ? RETAIN_EVENT : 0), 0,
			    0 };
	struct message m = { 0 };
	uint16_t cid = (uint16_t)(10 + number);

	if (letter == 'E' || letter == 'D')
		put_command(&m, NVME_SET_FEATURES, 0, cid, enable, NULL, 0, 0);
	else if (letter == 'A')
		put_command(&m, NVME_AER, 0, cid, (uint32_t[]){ 0, 0, 0 }, NULL, 0, 0);
	else if (letter == 'R' || letter == 'r')
		put_command(&m, NVME_GET_LOG, 0, cid, read, NULL, 0, NVME_DISCOVERY_ENTRY);
	if (letter == 'X' || letter == 'x')
		put_command(&m, NVME_FABRICS, NVME_PROPERTY_SET, cid, (uint32_t[]){ 0, 0x14, 0 },
			    NULL, 0, 0);
	if (letter == 'X')
		put_command(&m, NVME_FABRICS, NVME_PROPERTY_SET, cid,
			    (uint32_t[]){ 0, 0x14, 0x460001 }, NULL, 0, 0);
	if (letter == 'C')
		listen_at(d->t->worker.shared, (uint16_t)(5000 + number));
	if (letter == 'P')
		nvme_ports_listen(d->t->worker.shared, &service_nvme, NULL);
	if (letter == 'P')
		listen_at(d->t->worker.shared, 4420);
	if (m.bytes)
		say(d, &m, SIZE);
	nvme_settle();
	mailbox_run(&d->t->worker.mailbox);
	case_turns(d->t);
}

/* Events among what the host has heard since *at; all else has succeeded. */
static unsigned count_events(const struct disk *d, size_t *at)
{
	unsigned count = 0;

	while (*at < d->t->out_bytes) {
		struct heard h = hear(d, at, 0);

		assert_int_equal(h.status, NVME_SUCCESS);
		count += h.type == NVME_TCP_RSP && h.result == 0x70f002;
	}
	return count;
}

/* An event needs that it is enabled, that a request is outstanding, that the log has changed since
 * the host read it, and that it has not been sent since then.  What is missing may come last. */
TEST(a_change_of_the_log_is_an_event_once_until_it_is_read)
{
	static const struct {
		const char *steps, *events; /* how many after each of them */
	} cases[] = {
		/* Not enabled. */
		{ "AC", "00" },
		{ "ACDC", "0000" },
		{ "EADC", "0000" },
		/* Enabled while the condition is true, Base Specification 2.1, 5.1.25.1.5. */
		{ "ACE", "001" },
		{ "ACRE", "0000" },
		{ "CEA", "001" },
		/* Enabled, and no request outstanding. */
		{ "ECA", "001" },
		{ "ECDA", "0000" },
		{ "ECRA", "0000" },
		{ "ECrA", "0001" },
		/* Outstanding. */
		{ "EAC", "001" },
		{ "EAAC", "0001" },
		{ "EAP", "000" },
		{ "EPA", "000" },
		{ "EARC", "0001" },
		/* Masked, as it was sent. */
		{ "EACAC", "00111" },
		{ "EAACC", "00011" },
		{ "EACArC", "001111" },
		{ "EACARC", "001112" },
		{ "EACRAC", "001112" },
		{ "EACACR", "001111" }, /* what was read says all */
		{ "EACCRAC", "0011112" },
		{ "EACDREAC", "00111112" },
		/* A reset ends requests, what was enabled, and the mask. */
		{ "EAxC", "0000" },
		{ "EAXC", "0000" },
		{ "EAXAC", "00000" },
		{ "EACXEA", "001112" },
		{ "EAAAAXEAAAAC", "000000000001" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct message m = { 0 };
		unsigned events = 0;
		size_t at = 0;
		CLEANUP(disk_close) struct disk d;

		disk_open(&d, 16, 1);
		listen_at(d.t->worker.shared, 4420);
		nvme_settle();
		put_connect_to(&m, NVME_DISCOVERY_NQN, 15000, 0, NVME_CNTLID_NEW, 8);
		say(&d, &m, SIZE);
		for (unsigned number = 0; cases[i].steps[number]; number++) {
			step(&d, cases[i].steps[number], number);
			events += count_events(&d, &at);
			if (events != (unsigned)(cases[i].events[number] - '0'))
				fail_msg("%s: %u events after %u steps", cases[i].steps, events,
					 number + 1);
		}
	}
}

/* A drain has its own event, beside that of the log. */
TEST(a_drain_and_a_change_are_two_events)
{
	static const char steps[] = "EAAC";
	struct message m = { 0 };
	size_t at = 0;
	CLEANUP(disk_close) struct disk d;

	disk_open(&d, 16, 1);
	put_connect_to(&m, NVME_DISCOVERY_NQN, 15000, 0, NVME_CNTLID_NEW, 8);
	say(&d, &m, SIZE);
	d.t->out_bytes = 0;
	for (unsigned number = 0; steps[number]; number++) {
		d.t->worker.drain.on = steps[number] == 'C';
		step(&d, steps[number], number);
	}
	hear_success(&d, &at, 0, 10);
	assert_int_equal(hear(&d, &at, 0).result, 0x010300);
	assert_int_equal(hear(&d, &at, 0).result, 0x70f002);
	assert_int_equal(at, d.t->out_bytes);
}

/* It asks for events of its own, and has those of a drain. */
TEST(a_controller_with_namespaces_tells_no_change_of_the_log)
{
	struct message m = { 0 };
	size_t at = 0;
	CLEANUP(disk_close) struct disk d;

	disk_open(&d, 16, 1);
	put_connect_to(&m, "nqn.unit", 0, 0, NVME_CNTLID_NEW, 8);
	put_command(&m, NVME_SET_FEATURES, 0, 2, (uint32_t[]){ 0x0b, NVME_OAES_NAMESPACES, 0 },
		    NULL, 0, 0);
	say(&d, &m, SIZE);
	step(&d, 'A', 0);
	step(&d, 'A', 1);
	step(&d, 'C', 2);
	d.t->worker.drain.on = true;
	conn_ready(d.t->conn);
	case_turns(d.t);
	assert_int_equal(count_events(&d, &at), 0);
	assert_int_equal(nvme_of(d.t->conn)->drain_reported, true);
}

/* Bits of Set Features 0Bh that a controller does not have. */
TEST(an_event_that_is_not_served_is_refused)
{
	static const struct {
		const char *subnqn;
		uint32_t events;
		uint16_t status;
	} cases[] = {
		{ "nqn.unit", 0x1ff, NVME_SUCCESS },
		{ "nqn.unit", NVME_OAES_DISCOVERY, NVME_INVALID_FIELD | NVME_DNR },
		{ "nqn.unit", 0x200, NVME_INVALID_FIELD | NVME_DNR },
		{ NVME_DISCOVERY_NQN, NVME_OAES_DISCOVERY, NVME_SUCCESS },
		{ NVME_DISCOVERY_NQN, NVME_OAES_DISCOVERY | 1 << 30,
		  NVME_INVALID_FIELD | NVME_DNR },
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
		step(&d, 'E', 0);
		step(&d, 'A', 1);
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
