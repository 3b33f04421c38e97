/* Whose clients have which places of a Varlink server.  See varlink.h. */
#include <stddef.h>

#include "varlink_internal.h"

bool varlink_user_is_trusted(const struct varlink_users *users, uid_t uid)
{
	return uid == 0 || uid == users->own;
}

/* uid's own record, or one that is free: there are as many as clients. */
static struct varlink_user *find_user(struct varlink_users *users, uid_t uid)
{
	struct varlink_user *free_one = NULL;

	for (unsigned i = 0; i < VARLINK_CLIENTS_MAX; i++) {
		struct varlink_user *u = &users->list[i];

		if (u->clients > 0 && u->uid == uid)
			return u;
		if (u->clients == 0)
			free_one = u;
	}
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

struct varlink_user *varlink_user_enter(struct varlink_users *users, uid_t uid)
{
	struct varlink_user *user = find_user(users, uid);

	if (!user || user->clients >= VARLINK_USER_CLIENTS_MAX)
		return NULL;
	if (!varlink_user_is_trusted(users, uid) && count_others(users) >= VARLINK_OTHERS_MAX)
		return NULL;
	user->uid = uid;
	user->clients++;
	return user;
}

void varlink_user_leave(struct varlink_user *user)
{
	user->clients--;
}
