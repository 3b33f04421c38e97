/* See bench_words.h. */
#include "bench_words.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Commands run for 0.2 to 0.4 s where the generator allows it: many short visits decide
 * more than a few long ones.  wrk takes whole seconds, and counts right when SIGINT ends it
 * earlier, but not before it has a handler for it, which takes 0.25 s on a host that is very busy;
 * fio calibrates the CPU's clock at each start, unless another one is named. */
#define REDIS     " -h {host} -p {port} -t set -d 512 -c 50 -P 16 -n 100000 -q"
#define WRK       "timeout --preserve-status -s INT 0.4 wrk -t1 -d10 --latency"
#define FIO_TIMED " --clocksource=clock_gettime --time_based --runtime=200ms --output-format=json"
#define FIO_NET                                                                                    \
	"fio --name=net --ioengine=net --protocol=tcp --hostname={host} --port={port} --size=1t"
#define FIO_PACKAGES     "fio", "fio"
#define FIO_NBD_PACKAGES "fio", "fio fio-engine-nbd"
#define QEMU_PACKAGES    "qemu-utils qemu-block-extra", "qemu-img"
#define FIO_DISK         " --bs=4k --iodepth=32" FIO_TIMED
#define FIO_NBD          "fio --name=nbd --ioengine=nbd --uri={uri} --size=64m" FIO_DISK
/* The kernel is the client, so this needs root and the kernel's module.  Its disk appears some time
 * after the connection was made.  The command disconnects also when a signal ends it. */
#define NVME_NAME "nqn.2026-11.local.nbserved:bench"
#define NVME                                                                                       \
	"env sh -c 'trap exit INT TERM; trap \"nvme disconnect -n " NVME_NAME " >&2\" EXIT; "      \
	"nvme connect -t tcp -a {host} -s {port} -n " NVME_NAME " >&2 || exit; "                   \
	"for try in $(seq 100); do sleep 0.05; disk=$(grep -lxs " NVME_NAME " "                    \
	"/sys/block/nvme*n*/device/subsysnqn | cut -d/ -f4 | grep -vm1 c) && break; done; "        \
	"\"$@\" --filename=/dev/$disk' nvme fio --name=nvme --ioengine=libaio --direct=1 --size=16m --rw=randrw" FIO_DISK
/* A negative time is a number of transactions. */
#define NETPERF                                                                                    \
	"netperf -H {host} -p {port} -t TCP_RR -l -20000 -j -- -k "                                \
	"THROUGHPUT,THROUGHPUT_UNITS,LOCAL_SEND_CALLS,P50_LATENCY,P90_LATENCY,P99_LATENCY"

/* One file for all, which the first one makes; a host without io_uring has the other two. */
#define DISK(store) "nbd,store=" store ",export={file},optional=yes,name=nbd-" store

const struct bench benches[] = {
	{ .word = "echo",
	  .summary = "512 bytes, 50 connections, 16 deep",
	  .spec = "echo,engine=all echo,engine=io_uring,sqpoll=yes,optional=yes,name=echo-sqpoll",
	  .generators = { { "redis-benchmark", "redis-tools", "redis", "redis-benchmark" REDIS },
			  { "valkey-benchmark", "valkey-tools", "valkey",
			    "valkey-benchmark" REDIS },
			  { "fio", FIO_PACKAGES,
			    FIO_NET " --rw=write --pingpong=1 --bs=4k" FIO_TIMED } } },
	{ .word = "disk",
	  .summary = "random reads of 4 KiB of a cached file, 32 in flight",
	  .spec = DISK("io_uring") ",size=64M " DISK("threads") " " DISK("blocking"),
	  .needs_file = true,
	  .generators = { { "fio", FIO_NBD_PACKAGES, FIO_NBD " --rw=randread" },
			  { "qemu-img", QEMU_PACKAGES,
			    "qemu-img bench -f raw -d 32 -c 10000 -S 36864 {uri}" } } },
	{ .word = "tls",
	  .summary = "GET without TLS and with it, 8 connections",
	  .spec = "http,name=http http,tls=user,name=https",
	  .generators = { { "wrk", "wrk", "wrk", WRK " -c8 {uri}" },
			  { "h2load", "nghttp2-client", "nghttp2",
			    "h2load --h1 -n 20000 -c 8 {uri}" } } },
	{ .word = "bulk",
	  .summary = "receiving in bulk, 1 connection",
	  .spec = "iperf3,engine=all",
	  .generators = { { "iperf3", "iperf3", "iperf3",
			    "iperf3 -c {host} -p {port} -n 512M" } } },
	{ .word = "http",
	  .summary = "GET, 64 connections",
	  .spec = "http,engine=all",
	  .generators = { { "wrk", "wrk", "wrk", WRK " -c64 {uri}" },
			  { "h2load", "nghttp2-client", "nghttp2",
			    "h2load --h1 -n 20000 -c 64 {uri}" },
			  { "ab", "apache2-utils", "httpd-tools",
			    "ab -k -q -n 20000 -c 64 {uri}" } } },
	{ .word = "nbd",
	  .summary = "random blocks of 4 KiB, 32 in flight",
	  .spec = "nbd,engine=all",
	  .generators = { { "fio", FIO_NBD_PACKAGES, FIO_NBD " --rw=randrw" },
			  { "qemu-img", QEMU_PACKAGES,
			    "qemu-img bench -f raw -n -d 32 -c 10000 {uri}" },
			  { "nbdcopy", "libnbd-bin", "libnbd", "nbdcopy {uri} null:" } } },
	{ .word = "nvme",
	  .summary = "random blocks of 4 KiB over NVMe/TCP, 32 in flight",
	  .spec = "nvme,engine=all,size=16M,nqn=" NVME_NAME,
	  .generators = { { "fio nvme /dev/nvme-fabrics",
			    "fio nvme-cli, then `modprobe nvme-tcp` as root (the client of "
			    "NVMe/TCP is the kernel)",
			    "fio nvme-cli", NVME } } },
	{ .word = "netperf",
	  .summary = "round trips of 1 byte, one at a time",
	  .spec = "netperf,engine=all",
	  .generators = { { "netperf", "netperf (in non-free)", NULL, NETPERF } } },
	{ .word = "discard",
	  .summary = "receiving in bulk, blocks of 64 KiB",
	  .spec = "discard,engine=all",
	  .generators = { { "fio", FIO_PACKAGES, FIO_NET " --rw=write --bs=64k" FIO_TIMED } } },
	{ .word = "sockperf",
	  .summary = "round trips over TCP, one at a time",
	  .spec = "sockperf,engine=all",
	  .generators = { { "sockperf", "sockperf", "sockperf",
			    "sockperf ping-pong --tcp -i {host} -p {port} -t 1 --full-rtt" } } },
	{ .word = "udp",
	  .summary = "round trips over UDP, one at a time",
	  .spec = "sockperf,transport=udp,engine=all",
	  .generators = { { "sockperf", "sockperf", "sockperf",
			    "sockperf ping-pong -i {host} -p {port} -t 1 --full-rtt" } } },
	{ .word = NULL },
};

const struct bench *bench_find(const char *word)
{
	if (!strcmp(word, "https")) /* its name until 0.2 */
		word = "tls";
	for (const struct bench *b = benches; b->word; b++)
		if (!strcmp(b->word, word))
			return b;
	return NULL;
}

/* Is it there: a device that may be written to, or a program?  access() and not stat(), which a
 * sandbox may forbid for programs. */
static bool is_there(const char *what, int length)
{
	const char *path = getenv("PATH"), *end;
	char file[PATH_MAX];

	if (*what == '/')
		return access(what, W_OK) == 0;
	for (; path && *path; path = *end ? end + 1 : end) {
		int bytes;

		end = strchrnul(path, ':');
		bytes = snprintf(file, sizeof(file), "%.*s/%.*s", (int)(end - path), path, length,
				 what);
		if (bytes > 0 && (size_t)bytes < sizeof(file) && access(file, X_OK) == 0)
			return true;
	}
	return false;
}

bool bench_generator_is_installed(const struct bench_generator *g)
{
	const char *what = g->needs;
	size_t length;
	bool all = true;

	for (; all && *what; what += length + (what[length] != '\0')) {
		length = strcspn(what, " ");
		all = is_there(what, (int)length);
	}
	return all;
}

const struct bench_generator *bench_generator_of(const struct bench *b)
{
	for (const struct bench_generator *g = b->generators; g->needs; g++)
		if (bench_generator_is_installed(g))
			return g;
	return NULL;
}

const char *bench_measures(const char *generator)
{
	size_t length = strlen(generator);

	for (const struct bench *b = benches; b->word; b++)
		for (const struct bench_generator *g = b->generators; g->needs; g++)
			if (strcspn(g->needs, " ") == length &&
			    !strncmp(g->needs, generator, length))
				return b->word;
	return NULL;
}
