/* Places and CPU time of a Varlink server, accounted by user.  See varlink_user.h. */
#include "varlink_user.h"

#include <stddef.h>

#include "util.h"

/* A user may have VARLINK_SHARE_PERCENT of a CPU.  So a call that took 1 ms of CPU time is charged
 * as the 100 / VARLINK_SHARE_PERCENT ms of wall time after which the user has that share again.  A
 * user is in debt by PAY_MAX_US at most, since a single call may be long. */
#define AHEAD_US   ((uint64_t)VARLINK_AHEAD_MS * 1000 * 100 / VARLINK_SHARE_PERCENT)
#define PAY_MAX_US ((uint64_t)1000 * 1000)

bool varlink_user_is_trusted(const struct varlink_users *users, uid_t uid)
{
	return uid == 0 || uid == users->own;
}

/* Fewer than VARLINK_CLIENTS_MAX users have clients, so a record is always free; of the free ones
 * the one with the smallest debt is reused. */
struct varlink_user *varlink_user_find(struct varlink_users *users, uid_t uid)
{
	struct varlink_user *free_one = NULL;

	for (unsigned i = 0; i < VARLINK_CLIENTS_MAX; i++) {
		struct varlink_user *u = &users->list[i];

		if (u->uid == uid && (u->clients > 0 || u->even_us > 0))
			return u;
		if (u->clients == 0 && (!free_one || u->even_us < free_one->even_us))
			free_one = u;
	}
	*free_one = (struct varlink_user){ .uid = uid };
	return free_one;
}

static unsigned count_others(const struct varlink_users *users)
{
	unsigned count = 0;

	for (unsigned i = 0; i < VARLINK_CLIENTS_MAX; i++)
		if (!varlink_user_is_trusted(users, users->list[i].uid))
			count += users->list[i].clients;
	return count;
}

bool varlink_user_enter(struct varlink_users *users, struct varlink_user *user)
{
	if (user->clients >= VARLINK_USER_CLIENTS_MAX)
		return false;
	if (!varlink_user_is_trusted(users, user->uid) && count_others(users) >= VARLINK_OTHERS_MAX)
		return false;
	user->clients++;
	return true;
}

void varlink_user_leave(struct varlink_user *user)
{
	user->clients--;
}

void varlink_user_charge(struct varlink_user *user, uint64_t now_us, uint64_t cpu_ns)
{
	uint64_t share_us = cpu_ns / NS_PER_US * 100 / VARLINK_SHARE_PERCENT;

	user->even_us = MIN(MAX(user->even_us, now_us) + share_us, now_us + AHEAD_US + PAY_MAX_US);
}

uint64_t varlink_user_wait_us(const struct varlink_user *user, uint64_t now_us)
{
	return user->even_us > now_us + AHEAD_US ? user->even_us - now_us - AHEAD_US : 0;
}
