/* The service manager's watchdog (WatchdogSec=).  The main loop sends WATCHDOG=1 only while every
 * worker sleeps or makes turns.  During its bounded waits the main thread sends it by the functions
 * below, as systemd would otherwise restart the daemon.  No timer runs if the unit has no watchdog.
 * Other threads may call the waits, which then send nothing. */
#pragma once
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct notify;

/* Called each time before WATCHDOG=1 is sent.  False: a worker hangs, which the callback has
 * logged, and nothing is sent. */
typedef bool watchdog_alive(void *context);

/* 0 or -errno. */
int watchdog_start(sd_event *event, struct notify *notify, watchdog_alive *alive, void *context);

/* For a wait until end_ns (CLOCK_MONOTONIC) in slices.  Sends WATCHDOG=1 if it is due, and returns
 * the end of the next slice, at most end_ns. */
uint64_t watchdog_slice(uint64_t end_ns);
/* Waits for sem and sends WATCHDOG=1 meanwhile; false: end_ns passed first. */
bool watchdog_wait(sem_t *sem, uint64_t end_ns);
