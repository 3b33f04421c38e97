/* Shared by the benchmark's programs: sockets on the loopback, a process's CPU clock, options. */
#pragma once
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

/* A server as the command line names it: NAME:PORT:PID. */
struct target {
	const char *name;
	uint16_t port;
	pid_t pid;
};

/* As many descriptors as this process may have. */
static inline void raise_nofile(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static inline void set_option(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)) < 0)
		err(1, "setsockopt %d/%d", level, name);
}

/* A listening socket on a port of the kernel's choice, which is printed as "port N".  Accepted
 * sockets inherit TCP_NODELAY. */
static inline int listen_loopback(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		err(1, "listen");
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	printf("port %d\n", ntohs(sa.sin_port));
	fflush(stdout);
	return fd;
}

static inline int connect_loopback(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		err(1, "socket");
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		err(1, "connect to port %u", port);
	return fd;
}

/* CPU time of all of a process's threads, those of its rings (iou-sqp, iou-wrk) included. */
static inline uint64_t process_cpu_ns(pid_t pid)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) < 0)
		errx(1, "no CPU clock of process %d: has it ended?", (int)pid);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
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

static inline void *allocate(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		err(1, "calloc");
	return p;
}

/* Cuts text at its colons. */
static inline struct target target_parse(char *text)
{
	const char *name = strtok(text, ":"), *port = strtok(NULL, ":"), *pid = strtok(NULL, ":");

	if (!pid)
		errx(2, "expected NAME:PORT:PID");
	return (struct target){ .name = name,
				.port = (uint16_t)option_uint("port", port, 1, UINT16_MAX),
				.pid = (pid_t)option_uint("pid", pid, 1, INT32_MAX) };
}
