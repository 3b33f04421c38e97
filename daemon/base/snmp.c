/* The kernel's counters of UDP and TCP.  See snmp.h. */
#include "snmp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

static const struct {
	const char *section, *name;
	size_t offset;
} fields[] = {
	{ "Udp", "NoPorts", offsetof(struct snmp_counters, no_port) },
	{ "Udp", "InErrors", offsetof(struct snmp_counters, receive_errors) },
	{ "Udp", "RcvbufErrors", offsetof(struct snmp_counters, receive_buffer) },
	{ "Udp", "InCsumErrors", offsetof(struct snmp_counters, checksum) },
	{ "Udp", "SndbufErrors", offsetof(struct snmp_counters, send_buffer) },
	{ "Icmp", "InDestUnreachs", offsetof(struct snmp_counters, unreachable) },
	{ "Tcp", "OutSegs", offsetof(struct snmp_counters, segments_sent) },
	{ "Tcp", "RetransSegs", offsetof(struct snmp_counters, segments_retransmitted) },
};

static bool is(const char *word, const char *text, size_t length)
{
	return strlen(word) == length && memcmp(word, text, length) == 0;
}

/* Adds the value of one counter: section and name as they stand in a line, with their lengths. */
static void add(struct snmp_counters *to, const char *section, size_t section_length,
		const char *name, size_t name_length, uint64_t value)
{
	for (unsigned i = 0; i < ARRAY_SIZE(fields); i++)
		if (is(fields[i].section, section, section_length) &&
		    is(fields[i].name, name, name_length))
			*(uint64_t *)(void *)((char *)to + fields[i].offset) += value;
}

/* Skips to the next word of the line.  Its length; 0: there is none. */
static size_t next_word(const char **at)
{
	*at += strspn(*at, " \t");
	return strcspn(*at, " \t\n");
}

/* snmp: "Udp: NAME NAME...", and in the next line "Udp: VALUE VALUE...". */
static void add_pair(struct snmp_counters *to, const char *names, const char *values)
{
	const char *section = names;
	size_t section_length = strcspn(section, ":"), name, value;

	names += section_length + 1;
	values += section_length + 1;
	while ((name = next_word(&names)) > 0 && (value = next_word(&values)) > 0) {
		add(to, section, section_length, names, name, strtoull(values, NULL, 10));
		names += name;
		values += value;
	}
}

/* snmp6: "Udp6NAME VALUE". */
static void add_one(struct snmp_counters *to, const char *line)
{
	size_t section = strcspn(line, "6"), name;

	name = strcspn(line + section, " \t\n");
	if (name > 1)
		add(to, line, section, line + section + 1, name - 1,
		    strtoull(line + section + name, NULL, 10));
}

void snmp_add(struct snmp_counters *to, const char *text)
{
	const char *names = NULL;

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		size_t section = strcspn(line, ":\n");

		if (line[section] != ':')
			add_one(to, line);
		else if (names && strncmp(names, line, section + 1) == 0)
			add_pair(to, names, line);
		names = line[section] == ':' ? line : NULL;
	}
}

static void add_file(struct snmp_counters *to, const char *path)
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

void snmp_read(struct snmp_counters *ret)
{
	*ret = (struct snmp_counters){ 0 };
	add_file(ret, "/proc/self/net/snmp");
	add_file(ret, "/proc/self/net/snmp6");
}
