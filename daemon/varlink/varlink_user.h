/* Places and CPU time of a Varlink server's clients, accounted by user.  Pure: the caller passes
 * the time. */
#pragma once
#include "varlink.h"

/* A user: the number of its clients, and an account of the CPU time that they used. */
struct varlink_user {
	uid_t uid;
	unsigned clients;
	/* CLOCK_MONOTONIC: until then the CPU time already used exceeds the user's share. */
	uint64_t even_us;
};

struct varlink_users {
	struct varlink_user list[VARLINK_CLIENTS_MAX];
	uid_t own; /* our uid; it and root have reserved places */
};

/* Root, or the user that we run as. */
bool varlink_user_is_trusted(const struct varlink_users *users, uid_t uid);
/* The record of uid, valid while uid has clients or has used more than its share. */
struct varlink_user *varlink_user_find(struct varlink_users *users, uid_t uid);
/* Takes a place, which varlink_user_leave() returns; false: the limit is reached. */
bool varlink_user_enter(struct varlink_users *users, struct varlink_user *user);
void varlink_user_leave(struct varlink_user *user);
/* Charges the user for cpu_ns of this thread's time. */
void varlink_user_charge(struct varlink_user *user, uint64_t now_us, uint64_t cpu_ns);
/* Time until calls of the user may be handled; 0: now. */
uint64_t varlink_user_wait_us(const struct varlink_user *user, uint64_t now_us);
