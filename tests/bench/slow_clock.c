/* Preloaded into a server whose thread is single-stepped: its clock runs a thousand times slower,
 * as it is itself, so that what it does by the clock (sampling latencies) stays as rare. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { SLOWER = 1000, NS_PER_S = 1000 * 1000 * 1000 };

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
	static int (*real)(clockid_t, struct timespec *);
	uint64_t ns;
	int rc;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (!real)
		abort();
	rc = real(clock_id, tp);
	if (rc == 0 && clock_id == CLOCK_MONOTONIC) {
		ns = ((uint64_t)tp->tv_sec * NS_PER_S + (uint64_t)tp->tv_nsec) / SLOWER;
		tp->tv_sec = (time_t)(ns / NS_PER_S);
		tp->tv_nsec = (long)(ns % NS_PER_S);
	}
	return rc;
}
