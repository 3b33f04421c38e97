/* Private to the files of the control socket. */
#pragma once
#include "control.h"
#include "server.h"
#include "varlink.h"

#define INTERFACE "org.nbserved.Control"

/* The server that a call is about. */
static inline struct server *control_server(const struct varlink_call *call)
{
	return ((const struct control *)varlink_call_userdata(call))->server;
}

/* control_idl.c: the interface in Varlink's language, to be freed.  NULL: no memory. */
char *control_describe(void);

/* Answers org.nbserved.Control.NAME {listener, message}. */
void control_error(struct varlink_call *call, const char *name, const char *listener,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* control_doctor.c */
void control_doctor(struct varlink_call *call, json_t *parameters);
void control_doctor_stop(struct control *c); /* see control_stop() */
