/* The kernel's counters of UDP.  See snmp.h. */
#include "snmp.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	{ "NoPorts", offsetof(struct snmp_udp, no_port) },
	{ "InErrors", offsetof(struct snmp_udp, receive_errors) },
	{ "RcvbufErrors", offsetof(struct snmp_udp, receive_buffer) },
	{ "InCsumErrors", offsetof(struct snmp_udp, checksum) },
	{ "SndbufErrors", offsetof(struct snmp_udp, send_buffer) },
};

static void add(struct snmp_udp *to, const char *name, size_t length, uint64_t value)
{
	for (unsigned i = 0; i < ARRAY_SIZE(fields); i++)
		if (strlen(fields[i].name) == length && memcmp(fields[i].name, name, length) == 0)
			*(uint64_t *)(void *)((char *)to + fields[i].offset) += value;
}

/* The next word of the line, which ends there.  Its length; 0: there is none. */
static size_t next_word(const char **at)
{
	size_t length;

	*at += strspn(*at, " \t");
	length = strcspn(*at, " \t\n");
	return length;
}

/* snmp: "Udp: NAME NAME...", and in the next line "Udp: VALUE VALUE...". */
static void add_pair(struct snmp_udp *to, const char *names, const char *values)
{
	size_t name, value;

	while ((name = next_word(&names)) > 0 && (value = next_word(&values)) > 0) {
		add(to, names, name, strtoull(values, NULL, 10));
		names += name;
		values += value;
	}
}

void snmp_add(struct snmp_udp *to, const char *text)
{
	static const char four[] = "Udp:", six[] = "Udp6";
	const char *names = NULL;

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *at = line + strlen(six);
		size_t name;

		if (strncmp(line, four, strlen(four)) == 0) {
			if (names)
				add_pair(to, names, line + strlen(four));
			names = names ? NULL : line + strlen(four);
		} else if (strncmp(line, six, strlen(six)) == 0) { /* snmp6: "Udp6NAME VALUE" */
			name = next_word(&at);
			add(to, at, name, strtoull(at + name, NULL, 10));
		}
	}
}

static void add_file(struct snmp_udp *to, const char *path)
{
	char text[16384];
	FILE *f = fopen(path, "re");
	size_t bytes;

	if (!f)
		return;
	bytes = fread(text, 1, sizeof(text) - 1, f);
	text[bytes] = '\0';
	snmp_add(to, text);
	fclose(f);
}

void snmp_read(struct snmp_udp *ret)
{
	*ret = (struct snmp_udp){ 0 };
	add_file(ret, "/proc/self/net/snmp");
	add_file(ret, "/proc/self/net/snmp6");
}
