/* Whose clients have which places of a Varlink server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "varlink_internal.h"

enum { OWN = 900, OTHER = 1000 };

/* How many places uid gets until it is refused. */
static unsigned fill(struct varlink_users *users, uid_t uid)
{
	unsigned count = 0;

	while (varlink_user_enter(users, uid))
		assert_true(++count <= VARLINK_CLIENTS_MAX);
	return count;
}

static void a_uid_has_its_places_and_no_more(void **state)
{
	struct varlink_users users = { .own = OWN };
	struct varlink_user *user = varlink_user_enter(&users, OTHER);

	(void)state;
	assert_int_equal(fill(&users, OTHER), VARLINK_USER_CLIENTS_MAX - 1);
	varlink_user_leave(user);
	assert_ptr_equal(varlink_user_enter(&users, OTHER), user);
	assert_null(varlink_user_enter(&users, OTHER));
}

static void root_and_our_user_have_theirs_whoever_came_before(void **state)
{
	struct varlink_users users = { .own = OWN };
	unsigned others = 0;

	(void)state;
	for (uid_t uid = OTHER; uid < OTHER + 100; uid++)
		others += fill(&users, uid);
	assert_int_equal(others, VARLINK_OTHERS_MAX);
	assert_int_equal(fill(&users, 0), VARLINK_USER_CLIENTS_MAX);
	assert_int_equal(fill(&users, OWN), VARLINK_USER_CLIENTS_MAX);
	assert_int_equal(fill(&users, OTHER), 0);
}

static void the_place_of_one_other_serves_the_next(void **state)
{
	struct varlink_users users = { .own = OWN };
	struct varlink_user *list[VARLINK_OTHERS_MAX];

	(void)state;
	for (uid_t i = 0; i < VARLINK_OTHERS_MAX; i++)
		assert_non_null(list[i] = varlink_user_enter(&users, OTHER + i));
	for (uid_t i = 0; i < 10 * VARLINK_CLIENTS_MAX; i++) {
		uid_t uid = OTHER + VARLINK_OTHERS_MAX + i;

		assert_null(varlink_user_enter(&users, uid));
		varlink_user_leave(list[i % VARLINK_OTHERS_MAX]);
		list[i % VARLINK_OTHERS_MAX] = varlink_user_enter(&users, uid);
		assert_non_null(list[i % VARLINK_OTHERS_MAX]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_uid_has_its_places_and_no_more),
		cmocka_unit_test(root_and_our_user_have_theirs_whoever_came_before),
		cmocka_unit_test(the_place_of_one_other_serves_the_next),
	};

	return cmocka_run_group_tests_name("varlink users", tests, NULL, NULL);
}
