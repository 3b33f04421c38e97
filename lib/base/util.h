/* Helpers that every file may use: no state, libc only. */
#pragma once
#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* NB_VERSION is defined by the Makefile from the file VERSION. */
#define NB_URL "https://github.com/nbserved/nbserved"

#define container_of(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))
#define ARRAY_SIZE(a)                 (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)                     ((a) < (b) ? (a) : (b))
#define MAX(a, b)                     ((a) > (b) ? (a) : (b))
#define likely(x)                     __builtin_expect(!!(x), 1)
#define unlikely(x)                   __builtin_expect(!!(x), 0)

enum {
	NS_PER_US = 1000,
	NS_PER_MS = 1000 * 1000,
	NS_PER_S = 1000 * 1000 * 1000,
	CACHE_LINE = 64,
};

/* The plural ending of a noun that follows the number count. */
static inline const char *plural(unsigned long long count)
{
	return count == 1 ? "" : "s";
}

/* A hint to the CPU in a loop that waits for memory to change. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* CLOCK_MONOTONIC in nanoseconds (vDSO: no system call). */
static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* clock_ns() with a resolution of some milliseconds, for a fraction of the instructions. */
static inline uint64_t clock_coarse_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* CPU time of the calling thread (a system call). */
static inline uint64_t clock_thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* GCC 12's thread sanitizer does not know that sem_clockwait() orders what
 * was written before sem_post(). */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define sem_taken(sem) __tsan_acquire(sem)
#else
#define sem_taken(sem) (void)(sem)
#endif

/* Waits for sem; false: end_ns (CLOCK_MONOTONIC) passed first. */
static inline bool sem_wait_until(sem_t *sem, uint64_t end_ns)
{
	struct timespec end = { (time_t)(end_ns / NS_PER_S), (long)(end_ns % NS_PER_S) };
	int rc;

	do
		rc = sem_clockwait(sem, CLOCK_MONOTONIC, &end);
	while (rc < 0 && errno == EINTR);
	if (rc == 0)
		sem_taken(sem);
	return rc == 0;
}
