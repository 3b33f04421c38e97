/* Shared by the tests of the configuration: a good listener, and the errors of a text. */
#pragma once
#include <errno.h>

#include "config.h"
#include "unit.h"
#include "util.h"

/* A listener without errors; keys may follow. */
#define GOOD "[listener a]\naddress = 127.0.0.1:7008\nservice = echo\n"

/* The values of a choice, as error messages list them. */
#define ADDRESS                                                                                                   \
	"IP:PORT such as 127.0.0.1:7008, [::1]:7008, [fe80::1%eth0]:7008 or 0.0.0.0:7008-7011, or unix:/PATH or " \
	"unix:@NAME in ASCII, no white space, up to 107 bytes behind the colon"
#define SERVICES                                                                                   \
	"echo, discard, chargen, http, iperf3, nbd, netperf, nvme, sockperf, rping, fio, perftest or perftest-lat"

CLEANUP_OF(struct config *, config_free)

static char joined[65536];

/* The errors as one text, a line each; the next call frees it. */
static inline const char *join(const struct config_errors *errors)
{
	joined[0] = '\0';
	for (unsigned i = 0; i < MIN(errors->count, (unsigned)CONFIG_ERRORS_MAX); i++) {
		strcat(joined, errors->text[i]);
		strcat(joined, "\n");
	}
	return joined;
}

static inline struct config *load(const char *text)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;
	int err = config_load_text("f", text, strlen(text), &config, &errors);

	if (err)
		fail_msg("%s", join(&errors));
	assert_int_equal(errors.count, 0);
	config_errors_free(&errors);
	return config;
}

/* The errors of a configuration's text, a line each; "": it is good. */
static inline const char *errors_if_any(const char *text)
{
	CLEANUP(config_errors_free) struct config_errors errors = { 0 };
	CLEANUP(config_free_p) struct config *config = NULL;
	int rc = config_load_text("f", text, strlen(text), &config, &errors);

	assert_int_equal(rc, errors.count ? -EINVAL : 0);
	assert_int_equal(!config, errors.count > 0);
	return join(&errors);
}

static inline const char *errors_of(const char *text)
{
	const char *errors = errors_if_any(text);

	assert_string_not_equal(errors, "");
	return errors;
}

#define assert_errors(text, expected) assert_string_equal(errors_of(text), expected)

/* The text has one error, which begins with where and ends with what. */
static inline void assert_error(const char *text, const char *where, const char *what)
{
	const char *error = errors_of(text);

	assert_ptr_equal(strstr(error, where), error);
	assert_has(error, what);
	assert_string_equal(strstr(error, what) + strlen(what), "\n");
}

/* The only error of one more line in a good listener, without where it is. */
static inline const char *refusal(const char *setting)
{
	char text[1024];
	const char *error;

	snprintf(text, sizeof(text), GOOD "%s\n", setting);
	error = errors_of(text);
	assert_int_equal(strncmp(error, "f:4: [listener a] ", 18), 0);
	assert_string_equal(strchr(error, '\n'), "\n");
	return error + 18;
}
