/* Shared by the benchmark's programs: options of sockets and of the command line. */
#pragma once
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "util.h"

static inline void set_option(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)) < 0)
		err(1, "setsockopt %d/%d", level, name);
}

/* A decimal number in min..max, or the program ends with a message. */
static inline uint64_t option_uint(const char *name, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < min || value > max)
		errx(2, "%s: expected a number from %ju to %ju, got '%s'", name, (uintmax_t)min,
		     (uintmax_t)max, text);
	return value;
}
