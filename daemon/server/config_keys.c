/* The key table.  See config_keys.h for what its columns mean. */
#include "config_keys.h"

#include <assert.h>
#include <string.h>

#include "suggest.h"
#include "util.h"

const char *const config_section_names[] = { "server", "listener" };
const char *const config_class_names[] = { "live", "listener", "restart" };
const char *const config_transports[] = { "tcp", NULL };

#define FIELD(type, field) .offset = offsetof(type, field), .size = sizeof(((type *)0)->field)
#define SERVER(name_, type_, field_, preset_, class_, help_, ...)                                  \
	{                                                                                          \
		.section = CONFIG_SERVER, .name = name_, .type = &config_##type_,                  \
		.preset = preset_, .class = CONFIG_##class_, .help = help_,                        \
		FIELD(struct server_config, field_), __VA_ARGS__                                   \
	}
#define LISTENER(name_, type_, field_, preset_, class_, help_, ...)                                \
	{                                                                                          \
		.section = CONFIG_LISTENER, .name = name_, .type = &config_##type_,                \
		.preset = preset_, .class = CONFIG_##class_, .help = help_,                        \
		FIELD(struct listener_config, field_), __VA_ARGS__                                 \
	}
#define RANGE(min_, max_) .min = (min_), .max = (max_)
#define KIB               1024ULL
#define MIB               (1024 * KIB)
#define DAY               (24ULL * 3600 * NS_PER_S)

/* name, type, field, default, what a reload does, help, constraints */
/* clang-format off */
const struct config_key config_keys[] = {
	SERVER("control", path, control, "/run/nbserved/control.sock", RESTART,
	       "Unix socket for nbctl"),
	SERVER("control-group", name, control_group, "nbserved", RESTART,
	       "group that may read; changes need root or the server's own user"),
	SERVER("log-level", log_level, log_level, "info", LIVE,
	       "the least urgent messages that are logged"),
	SERVER("drain-timeout", duration, drain_timeout_ns, "30s", LIVE,
	       "how long connections may take to finish when their listener stops", RANGE(0, DAY)),

	LISTENER("address", addresses, addresses, NULL, REPLACE,
		 "where to listen; a list; port 0: the kernel chooses"),
	LISTENER("transport", choice, transport, "tcp", REPLACE,
		 "what carries the bytes", .words = config_transports, .absent = "rdma"),
	LISTENER("engine", engine, engine, "auto", REPLACE,
		 "how bytes move; auto: the best that this host allows", .absent = "rdma"),
	LISTENER("service", service, service, NULL, REPLACE,
		 "what the bytes mean"),
	LISTENER("workers", uint, workers, "1", REPLACE,
		 "threads; auto: one for each CPU that the process may use", RANGE(1, 64),
		 .word = "auto"),
	LISTENER("cpus", cpus, options.cpus, "any", REPLACE,
		 "CPUs that the workers are bound to"),
	LISTENER("optional", bool, optional, "no", REPLACE,
		 "yes: if this host cannot serve it, say so and go on"),
	LISTENER("max-connections", uint, max_connections, "10000", LIVE,
		 "open at a time; 0: no limit", RANGE(0, 1000000)),
	LISTENER("max-connections-per-address", uint, max_connections_per_address, "0", LIVE,
		 "open at a time from one client address; 0: no limit", RANGE(0, 1000000)),
	LISTENER("idle-timeout", duration, options.idle_timeout_ns, "0", LIVE,
		 "close connections that are silent for that long; 0: never", RANGE(0, DAY)),
	LISTENER("allow", networks, allow, "any", LIVE,
		 "clients that may connect; a list"),
	LISTENER("buffer-size", size, options.buffer_size, "16K", REPLACE,
		 "of each buffer", RANGE(4 * KIB, MIB), .power_of_two = true),
	LISTENER("buffers", uint, options.buffers, "1024", REPLACE,
		 "of each worker", RANGE(16, 32768)),
	LISTENER("sqpoll", bool, options.sqpoll, "no", REPLACE,
		 "a kernel thread polls the submission queue", .engine = "io_uring"),
	LISTENER("sqpoll-idle", duration, options.sqpoll_idle_ns, "1s", REPLACE,
		 "that thread, and on another CPU the worker, look for work so long before they sleep", RANGE(NS_PER_MS, DAY)),
	LISTENER("sqpoll-cpu", cpu, options.sqpoll_cpu, "any", REPLACE,
		 "CPU that this thread is bound to", .word = "any", .word_value = UINT64_MAX),
	LISTENER("busy-poll", duration, options.busy_poll_ns, "0", REPLACE,
		 "spin that long before sleeping", RANGE(0, NS_PER_S)),
	LISTENER("zero-copy-min", size, options.zero_copy_min, "0", REPLACE,
		 "sends from this size on avoid a copy; 0: none do", RANGE(0, 1024 * MIB),
		 .engine = "io_uring"),
};
/* clang-format on */
const unsigned config_key_count = ARRAY_SIZE(config_keys);

static_assert(ARRAY_SIZE(config_keys) <= CONFIG_KEYS_MAX, "origins[] is too short");
static_assert(offsetof(struct server_config, origins) == 0, "see config_key_origin()");
static_assert(offsetof(struct listener_config, origins) == 0, "see config_key_origin()");

const struct config_key *config_key_find(enum config_section section, const char *name)
{
	for (unsigned i = 0; i < config_key_count; i++)
		if (config_keys[i].section == section && !strcmp(config_keys[i].name, name))
			return &config_keys[i];
	return NULL;
}

struct config_origin *config_key_origin(const struct config_key *key, void *section)
{
	struct config_origin *origins = section;

	return &origins[key - config_keys];
}

unsigned config_key_lines(const struct config_key *key, const void *section)
{
	/* An empty list prints as one word. */
	return key->type->count ? MAX(*key->type->count((void *)section), 1U) : 1;
}

void config_key_expect(const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	const struct config_type *type = key->type;
	size_t length;

	text[0] = '\0';
	if (type->expect)
		type->expect(key, text);
	for (unsigned i = 0; type->word && type->word(key, i); i++) {
		const char *comma = text[0] == '\0' ? "" : type->word(key, i + 1) ? ", " : " or ";

		length = strlen(text);
		snprintf(text + length, CONFIG_TEXT_MAX - length, "%s%s", comma,
			 type->word(key, i));
	}
}

void config_key_hint(const struct config_key *key, const char *value,
		     char text[static CONFIG_TEXT_MAX])
{
	struct suggestion s = { .text = value };

	text[0] = '\0';
	if (key->absent && !strcmp(key->absent, value)) {
		snprintf(text, CONFIG_TEXT_MAX, " (%s is not in this version yet)", value);
		return;
	}
	for (unsigned i = 0; key->type->word && key->type->word(key, i); i++)
		suggest_try(&s, key->type->word(key, i));
	if (s.best)
		snprintf(text, CONFIG_TEXT_MAX, " (did you mean '%s'?)", s.best);
	else if (key->type->of_cpus)
		snprintf(text, CONFIG_TEXT_MAX, " (this host has the CPUs 0-%u)",
			 config_host_cpus() - 1);
}
