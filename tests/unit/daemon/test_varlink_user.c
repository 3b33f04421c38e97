/* Places and time of a Varlink server, shared by the users of its clients. */
#include "unit.h"
#include "util.h"
#include "varlink_user.h"

enum { OWN = 900, OTHER = 1000 };

/* The number of places that uid gets before it is refused. */
static unsigned fill(struct varlink_users *users, uid_t uid)
{
	unsigned count = 0;

	while (varlink_user_enter(users, varlink_user_find(users, uid)))
		assert_true(++count <= VARLINK_CLIENTS_MAX);
	return count;
}

TEST(root_and_our_user_have_reserved_places)
{
	struct varlink_users users = { .own = OWN };
	unsigned others = 0;

	for (uid_t uid = OTHER; uid < OTHER + 100; uid++)
		others += fill(&users, uid);
	assert_int_equal(others, VARLINK_OTHERS_MAX);
	assert_int_equal(fill(&users, 0), VARLINK_USER_CLIENTS_MAX);
	assert_int_equal(fill(&users, OWN), VARLINK_USER_CLIENTS_MAX);
	assert_int_equal(fill(&users, OTHER), 0);
}

TEST(the_place_of_one_other_serves_the_next)
{
	struct varlink_users users = { .own = OWN };
	struct varlink_user *list[VARLINK_OTHERS_MAX];

	for (uid_t i = 0; i < VARLINK_OTHERS_MAX; i++) {
		list[i] = varlink_user_find(&users, OTHER + i);
		assert_true(varlink_user_enter(&users, list[i]));
	}
	for (uid_t i = 0; i < 10 * VARLINK_CLIENTS_MAX; i++) {
		uid_t uid = OTHER + VARLINK_OTHERS_MAX + i;
		struct varlink_user **place = &list[i % VARLINK_OTHERS_MAX];

		assert_false(varlink_user_enter(&users, varlink_user_find(&users, uid)));
		varlink_user_leave(*place);
		*place = varlink_user_find(&users, uid);
		assert_true(varlink_user_enter(&users, *place));
	}
}

/* Makes calls of 3 ms each for some seconds and returns how many were let through; time passes when
 * the user has to wait. */
static uint64_t taken_ns(struct varlink_users *users, uint64_t *now_us, unsigned seconds)
{
	uint64_t end_us = *now_us + (uint64_t)seconds * 1000 * 1000, taken = 0, wait_us;

	while (*now_us < end_us) {
		struct varlink_user *user = varlink_user_find(users, OTHER);

		wait_us = varlink_user_wait_us(user, *now_us);
		if (wait_us > 0) {
			*now_us += wait_us;
			continue;
		}
		varlink_user_charge(user, *now_us, 3 * NS_PER_MS);
		*now_us += 3000;
		taken += 3 * NS_PER_MS;
	}
	return taken;
}

TEST(a_busy_user_gets_its_share)
{
	const uint64_t ahead_ns = (uint64_t)VARLINK_AHEAD_MS * NS_PER_MS;
	struct varlink_users users = { .own = OWN };
	uint64_t now_us = 77, share_ns = 10ULL * NS_PER_S * VARLINK_SHARE_PERCENT / 100;
	uint64_t first_ns = taken_ns(&users, &now_us, 10), then_ns = taken_ns(&users, &now_us, 10);

	assert_in_range(first_ns, ahead_ns + share_ns * 9 / 10, ahead_ns + share_ns * 11 / 10);
	assert_in_range(then_ns, share_ns * 9 / 10, share_ns * 11 / 10);
	now_us += 3600ULL * 1000 * 1000; /* an hour of silence is worth no more than the start */
	first_ns = taken_ns(&users, &now_us, 10);
	assert_in_range(first_ns, ahead_ns + share_ns * 9 / 10, ahead_ns + share_ns * 11 / 10);
}

/* The account is the user's: it does not depend on the clients that connect and leave meanwhile. */
TEST(cpu_time_is_charged_after_the_clients_have_left)
{
	struct varlink_users users = { .own = OWN };
	struct varlink_user *user = varlink_user_find(&users, OTHER);
	uint64_t now_us = 1000 * 1000;

	assert_true(varlink_user_enter(&users, user));
	varlink_user_charge(user, now_us, (uint64_t)NS_PER_S * 3600);
	varlink_user_leave(user);
	for (uid_t uid = OTHER + 1; uid < OTHER + 20; uid++)
		varlink_user_charge(varlink_user_find(&users, uid), now_us, NS_PER_MS);
	assert_int_equal(varlink_user_wait_us(varlink_user_find(&users, OTHER + 1), now_us), 0);
	user = varlink_user_find(&users, OTHER);
	/* A long call is paid for in a second. */
	assert_in_range(varlink_user_wait_us(user, now_us), 1, 1000 * 1000);
	now_us += 1000 * 1000;
	assert_int_equal(varlink_user_wait_us(user, now_us), 0);
}
