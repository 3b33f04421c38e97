/* The service manager's watchdog (WatchdogSec=): fed from the main loop, only while every worker
 * sleeps or makes turns.  It guards that loop: where that waits, with a bound and knowing for what,
 * it feeds it meanwhile.  No timer runs without a watchdog.  Main thread only. */
#pragma once
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct notify;

/* Asked each time before it is fed: is all well?  If not, it says what is not. */
typedef bool watchdog_alive(void *context);

/* 0 or -errno. */
int watchdog_start(sd_event *event, struct notify *notify, watchdog_alive *alive, void *context);

/* For a wait until end_ns (CLOCK_MONOTONIC), in slices: feeds the watchdog if it is time, and
 * returns when to do so again, at most end_ns. */
uint64_t watchdog_slice(uint64_t end_ns);
/* Waits for sem with the watchdog served meanwhile; false: end_ns passed. */
bool watchdog_wait(sem_t *sem, uint64_t end_ns);
