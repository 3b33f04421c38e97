/* The doctor's checks of network cards: those of the interfaces that have listeners' addresses. */
#pragma once
#include <jansson.h>
#include <sched.h>
#include <stdbool.h>

struct config;
struct nic_host;

/* What the listeners on an interface need of it. */
struct nic_use {
	unsigned workers; /* the most that one of them has */
	cpu_set_t cpus;   /* `cpus` of all; empty: any */
	bool busy_poll;   /* one of them has `busy-poll` */
};

/* Adds the checks of an interface, of which nic is what nic_describe() tells.  Pure, but for files
 * of the host. */
void doctor_nic_judge(json_t *checks, const struct nic_host *host, const json_t *nic,
		      const struct nic_use *use);

/* Adds the checks of each interface, and of the host if one of them is a card. */
void doctor_nic(json_t *checks, const struct config *config);

/* Those of the host. */
void doctor_nic_host(json_t *checks, const struct nic_host *host, const cpu_set_t *cpus);
