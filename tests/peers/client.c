/* Load for echo servers: one thread, every connection of every server open at once, and slices of
 * load that go to one server after the other in an order that changes every round.
 *
 * Each server is a process of its own, so that its CPU clock tells what the slice cost it.  All
 * bytes that come back are compared with what was sent.  The result is one line of JSON; slices of
 * one round stand at the same place in every server's arrays, for paired ratios. */
#include <getopt.h>
#include <sys/epoll.h>

#include "bench.h"
#include "histogram.h"

enum {
	SERVERS_MAX = 16,
	EVENTS_MAX = 512,
	BATCH_BYTES_MAX =
		64 * 1024, /* a connection's messages in flight must fit its socket buffers */
	PATTERN_PERIOD = 65521,
	ANSWER_TIMEOUT_MS = 10 * 1000,
};

struct conn {
	int fd;
	uint32_t origin; /* where in the pattern its stream begins */
	uint64_t sent_bytes, received_bytes;
	uint64_t sent, answered; /* messages */
	uint64_t *sent_ns;       /* of message n at n % depth */
};

struct slice {
	uint64_t cpu_ns, elapsed_ns, requests;
};

struct server {
	struct target target;
	int epoll_fd;
	struct conn *conns;
	struct slice *slices;
	struct histogram latency;
};

struct load {
	uint32_t connections, depth, size, rounds;
	uint64_t slice_ms;
	uint64_t requests; /* per slice; 0: until slice_ms is over */
	uint64_t random;
	struct server servers[SERVERS_MAX];
	unsigned server_count;
};

/* The slice being run. */
struct run {
	struct server *server;
	const struct load *load;
	uint64_t deadline_ns, quota; /* sending ends at the first of both */
	uint64_t sent, answered;
};

static uint8_t pattern[PATTERN_PERIOD + BATCH_BYTES_MAX];
static uint8_t input[2 * BATCH_BYTES_MAX];

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void pattern_fill(void)
{
	uint64_t state = 88172645463325252ULL;

	for (unsigned i = 0; i < sizeof(pattern); i++)
		pattern[i] = i < PATTERN_PERIOD ? (uint8_t)random_next(&state)
						: pattern[i - PATTERN_PERIOD];
}

static const uint8_t *pattern_at(const struct conn *c, uint64_t bytes)
{
	return pattern + (c->origin + bytes) % PATTERN_PERIOD;
}

/* ---- One slice ---- */

static void conn_send(struct run *r, struct conn *c, uint64_t count, uint64_t now_ns)
{
	const struct load *load = r->load;
	size_t bytes = count * load->size;

	for (uint64_t i = 0; i < count; i++)
		c->sent_ns[c->sent++ % load->depth] = now_ns;
	if (send(c->fd, pattern_at(c, c->sent_bytes), bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		err(1, "%s: send", r->server->target.name);
	c->sent_bytes += bytes;
	r->sent += count;
}

static void conn_receive(struct run *r, struct conn *c)
{
	ssize_t n = recv(c->fd, input, sizeof(input), MSG_DONTWAIT);
	uint64_t now_ns = clock_ns(), count;

	if (n <= 0)
		errx(1, "%s: connection lost: %s", r->server->target.name,
		     n < 0 ? strerror(errno) : "closed by the server");
	if (c->received_bytes + (size_t)n > c->sent_bytes ||
	    memcmp(input, pattern_at(c, c->received_bytes), (size_t)n) != 0)
		errx(1, "%s: received what was not sent", r->server->target.name);
	c->received_bytes += (size_t)n;
	count = c->received_bytes / r->load->size - c->answered;
	for (uint64_t i = 0; i < count; i++)
		histogram_add(&r->server->latency,
			      now_ns - c->sent_ns[c->answered++ % r->load->depth], 1);
	r->answered += count;
	if (count && now_ns < r->deadline_ns && r->sent < r->quota)
		conn_send(r, c, count, now_ns);
}

static void slice_run(const struct load *load, struct server *s, struct slice *ret_slice)
{
	uint64_t cpu_ns = process_cpu_ns(s->target.pid), start_ns = clock_ns();
	struct epoll_event events[EVENTS_MAX];
	struct run r = {
		.server = s,
		.load = load,
		.deadline_ns = load->requests ? UINT64_MAX : start_ns + load->slice_ms * NS_PER_MS,
		.quota = load->requests ? load->requests : UINT64_MAX,
	};

	for (uint32_t i = 0; i < load->connections; i++)
		conn_send(&r, &s->conns[i], load->depth, clock_ns());
	while (r.answered < r.sent) {
		int n = epoll_wait(s->epoll_fd, events, EVENTS_MAX, ANSWER_TIMEOUT_MS);

		if (n <= 0)
			errx(1, "%s: %ju requests are not answered", s->target.name,
			     (uintmax_t)(r.sent - r.answered));
		for (int i = 0; i < n; i++)
			conn_receive(&r, events[i].data.ptr);
	}
	ret_slice->elapsed_ns = clock_ns() - start_ns;
	ret_slice->cpu_ns = process_cpu_ns(s->target.pid) - cpu_ns;
	ret_slice->requests = r.answered;
}

/* ---- All of them ---- */

static void server_connect(const struct load *load, struct server *s)
{
	uint64_t *sent_ns = allocate((size_t)load->connections * load->depth, sizeof(*sent_ns));

	s->conns = allocate(load->connections, sizeof(*s->conns));
	s->slices = allocate(load->rounds, sizeof(*s->slices));
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (uint32_t i = 0; i < load->connections; i++) {
		struct conn *c = &s->conns[i];
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

		c->fd = connect_loopback(s->target.port);
		set_option(c->fd, IPPROTO_TCP, TCP_NODELAY, 1);
		c->origin = i * 977;
		c->sent_ns = sent_ns + (size_t)i * load->depth;
		if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0)
			err(1, "epoll_ctl");
	}
}

static void round_run(struct load *load, unsigned round)
{
	unsigned order[SERVERS_MAX];

	for (unsigned i = 0; i < load->server_count; i++) {
		unsigned j = (unsigned)(random_next(&load->random) % (i + 1));

		order[i] = order[j];
		order[j] = i;
	}
	for (unsigned i = 0; i < load->server_count; i++) {
		struct server *s = &load->servers[order[i]];

		slice_run(load, s, &s->slices[round]);
	}
}

static void load_run(struct load *load)
{
	for (unsigned i = 0; i < load->server_count; i++)
		server_connect(load, &load->servers[i]);
	for (unsigned i = 0; i < load->server_count; i++) { /* warm up: every connection answers */
		slice_run(load, &load->servers[i], load->servers[i].slices);
		memset(&load->servers[i].latency, 0, sizeof(load->servers[i].latency));
	}
	for (unsigned round = 0; round < load->rounds; round++)
		round_run(load, round);
}

/* ---- The result ---- */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* "name":{"q1":...,"median":...,"q3":...}; sorts values. */
static void print_quartiles(const char *name, double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), compare_doubles);
	printf("\"%s\":{\"q1\":%.1f,\"median\":%.1f,\"q3\":%.1f}", name, values[count / 4],
	       values[count / 2], values[count * 3 / 4]);
}

static void print_server(const struct load *load, const struct server *s)
{
	static const double quantiles[] = { 0.5, 0.9, 0.99, 0.999 };
	static const char *const names[] = { "p50", "p90", "p99", "p99_9" };
	double *cpu = allocate(load->rounds, sizeof(*cpu)),
	       *rate = allocate(load->rounds, sizeof(*rate));
	struct histogram_sum latency = { 0 };
	uint64_t requests = 0, elapsed_ns = 0;

	histogram_merge(&latency, &s->latency);
	printf("{\"name\":\"%s\",\"rounds_cpu_ns\":[", s->target.name);
	for (unsigned i = 0; i < load->rounds; i++) {
		const struct slice *slice = &s->slices[i];

		cpu[i] = (double)slice->cpu_ns / (double)slice->requests;
		rate[i] = (double)slice->requests * NS_PER_S / (double)slice->elapsed_ns;
		requests += slice->requests;
		elapsed_ns += slice->elapsed_ns;
		printf("%s%.1f", i ? "," : "", cpu[i]);
	}
	printf("],\"requests\":%ju,\"seconds\":%.3f,", (uintmax_t)requests,
	       (double)elapsed_ns / NS_PER_S);
	print_quartiles("cpu_ns_per_request", cpu, load->rounds);
	printf(",");
	print_quartiles("requests_per_s", rate, load->rounds);
	printf(",\"latency_ns\":{");
	for (unsigned i = 0; i < ARRAY_SIZE(quantiles); i++)
		printf("\"%s\":%ju,", names[i],
		       (uintmax_t)histogram_quantile(&latency, quantiles[i]));
	printf("\"max\":%ju}}", (uintmax_t)latency.max);
	free(cpu);
	free(rate);
}

static void print_load(const struct load *load)
{
	printf("{\"connections\":%u,\"depth\":%u,\"size\":%u,\"rounds\":%u,\"servers\":[",
	       load->connections, load->depth, load->size, load->rounds);
	for (unsigned i = 0; i < load->server_count; i++) {
		if (i)
			printf(",");
		print_server(load, &load->servers[i]);
	}
	printf("]}\n");
}

/* ---- Options ---- */

static void usage(void)
{
	fprintf(stderr,
		"usage: client [-c CONNECTIONS] [-d DEPTH] [-s BYTES] [-r ROUNDS]\n"
		"              [-t SLICE_MS | -n REQUESTS_PER_SLICE] [-S SEED] NAME:PORT:PID...\n"
		"Drives echo servers on the loopback in alternating slices; prints JSON.\n");
	exit(2);
}

static void options_parse(struct load *load, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "c:d:s:r:t:n:S:")) != -1) {
		if (option == 'c')
			load->connections = (uint32_t)option_uint("-c", optarg, 1, 100000);
		else if (option == 'd')
			load->depth = (uint32_t)option_uint("-d", optarg, 1, BATCH_BYTES_MAX);
		else if (option == 's')
			load->size = (uint32_t)option_uint("-s", optarg, 1, BATCH_BYTES_MAX);
		else if (option == 'r')
			load->rounds = (uint32_t)option_uint("-r", optarg, 1, 100000);
		else if (option == 't')
			load->slice_ms = option_uint("-t", optarg, 1, 600 * 1000);
		else if (option == 'n')
			load->requests = option_uint("-n", optarg, 1, UINT32_MAX);
		else if (option == 'S')
			load->random = option_uint("-S", optarg, 1, UINT64_MAX);
		else
			usage();
	}
	if (optind == argc)
		usage();
	if (argc - optind > SERVERS_MAX)
		errx(2, "more than %d servers", SERVERS_MAX);
	for (; optind < argc; optind++)
		load->servers[load->server_count++].target = target_parse(argv[optind]);
	if ((uint64_t)load->depth * load->size > BATCH_BYTES_MAX)
		errx(2, "depth * size is more than %d bytes", BATCH_BYTES_MAX);
}

int main(int argc, char **argv)
{
	struct load *load = allocate(1, sizeof(*load));

	*load = (struct load){ .connections = 1,
			       .depth = 1,
			       .size = 512,
			       .rounds = 20,
			       .slice_ms = 60,
			       .random = clock_ns() | 1 };
	options_parse(load, argc, argv);
	raise_nofile();
	pattern_fill();
	load_run(load);
	print_load(load);
	return 0;
}
