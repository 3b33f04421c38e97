/* The service manager's watchdog (WatchdogSec=): fed from the main loop, only while every
 * worker sleeps or makes turns.  The watchdog also guards the main loop itself, so the main
 * thread's bounded waits feed it by the functions below.  No timer runs if the unit has no
 * watchdog.  Main thread only; on others the waits feed nothing. */
#pragma once
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct notify;

/* Called each time before the watchdog is fed.  False: a worker hangs, so it is not fed; the
 * callback reports which. */
typedef bool watchdog_alive(void *context);

/* 0 or -errno. */
int watchdog_start(sd_event *event, struct notify *notify, watchdog_alive *alive, void *context);

/* For a wait until end_ns (CLOCK_MONOTONIC) in slices: feeds the watchdog if it is due, and returns
 * the end of the next slice, at most end_ns. */
uint64_t watchdog_slice(uint64_t end_ns);
/* Waits for sem and feeds the watchdog meanwhile; false: end_ns passed first. */
bool watchdog_wait(sem_t *sem, uint64_t end_ns);
