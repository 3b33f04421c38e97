/* See sweep.h. */
#include "sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "brace.h"
#include "util.h"

static int check_name(const struct sweeps *s, const char *name, struct reason *reason)
{
	static const char *const taken[] = { "host", "port", "uri", "listener" };

	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz_")])
		return reason_set(reason, -EINVAL,
				  "--sweep %s: a name has lower-case letters and underscores only",
				  name);
	for (unsigned i = 0; i < ARRAY_SIZE(taken); i++)
		if (!strcmp(name, taken[i]))
			return reason_set(
				reason, -EINVAL,
				"--sweep %s: {%s} already stands for a property of the listener; "
				"choose another name",
				name, name);
	for (unsigned i = 0; i < s->count; i++)
		if (!strcmp(name, s->list[i].name))
			return reason_set(reason, -EINVAL,
					  "--sweep %s is given twice; list all values in one, "
					  "NAME=V1,V2",
					  name);
	return 0;
}

static int add_value(struct sweep *to, const char *value, struct reason *reason)
{
	if (!*value)
		return reason_set(reason, -EINVAL, "--sweep %s: a value is empty", to->name);
	for (unsigned i = 0; i < to->count; i++)
		if (!strcmp(to->values[i], value))
			return reason_set(reason, -EINVAL, "--sweep %s: %s is there twice",
					  to->name, value);
	if (to->count == SWEEP_COMBINATIONS_MAX)
		return reason_set(reason, -EINVAL, "--sweep %s: more than %d values", to->name,
				  SWEEP_COMBINATIONS_MAX);
	to->values = reallocarray(to->values, to->count + 1, sizeof(*to->values));
	if (!to->values)
		abort();
	to->values[to->count++] = value;
	return 0;
}

int sweeps_add(struct sweeps *s, const char *text, struct reason *reason)
{
	const char *equals = strchr(text, '=');
	struct sweep *new = &s->list[s->count];
	char *value, *next;
	int rc;

	if (!equals || equals == text)
		return reason_set(reason, -EINVAL, "--sweep: expected NAME=VALUE,..., got '%s'",
				  text);
	if (s->count == SWEEPS_MAX)
		return reason_set(reason, -EINVAL, "at most %d --sweep", SWEEPS_MAX);
	new->name = strdup(text);
	if (!new->name)
		abort();
	value = new->name + (equals - text);
	*value++ = '\0';
	rc = check_name(s, new->name, reason);
	s->count++;
	for (; rc == 0 && value; value = next) {
		next = strchr(value, ',');
		if (next)
			*next++ = '\0';
		rc = add_value(new, value, reason);
	}
	return rc;
}

void sweeps_fini(struct sweeps *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		free(s->list[i].name);
		free(s->list[i].values);
	}
	s->count = 0;
}

unsigned sweeps_combinations(const struct sweeps *s)
{
	unsigned count = 1;

	for (unsigned i = 0; i < s->count && count <= SWEEP_COMBINATIONS_MAX; i++)
		count *= s->list[i].count;
	return count;
}

const char *sweeps_value(const struct sweeps *s, unsigned i, unsigned combination)
{
	for (unsigned j = s->count - 1; j > i; j--)
		combination /= s->list[j].count;
	return s->list[i].values[combination % s->list[i].count];
}

struct filling {
	const struct sweeps *sweeps;
	unsigned combination;
};

static const char *value_of(const void *context, const struct brace *brace)
{
	const struct filling *f = context;

	for (unsigned i = 0; i < f->sweeps->count; i++)
		if (brace_is(brace, f->sweeps->list[i].name))
			return sweeps_value(f->sweeps, i, f->combination);
	return NULL;
}

char *sweeps_fill(const struct sweeps *s, unsigned combination, const char *text, bool last)
{
	struct filling f = { s, combination };

	return brace_fill(text, value_of, &f, last);
}

bool sweeps_names(const struct sweeps *s, unsigned i, const char *text)
{
	struct brace brace;

	for (; brace_find(text, &brace); text = brace.text + brace.bytes)
		if (brace_is(&brace, s->list[i].name))
			return true;
	return false;
}
