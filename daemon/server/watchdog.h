/* The service manager's watchdog (WatchdogSec=): fed from the main loop, only while every worker
 * sleeps or makes turns.  No timer runs without a watchdog. */
#pragma once
struct server;

/* 0 or -errno. */
int watchdog_start(struct server *s);
