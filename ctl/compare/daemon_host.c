/* See daemon_host.h. */
#include "daemon_host.h"

#include "host.h"

int daemon_host_describe(struct ctl *ctl, json_t **ret)
{
	if (ctl->target.host)
		return ctl_call(ctl, "Host.Conditions", NULL, ret);
	*ret = host_describe();
	return CTL_DONE;
}

int daemon_host_read(struct ctl *ctl, pid_t pid, const char *listener, json_t **ret)
{
	if (ctl->target.host)
		return ctl_call(ctl, "Host.Read",
				json_pack("{s:i, s:s}", "pid", (int)pid, "listener", listener),
				ret);
	*ret = host_read(pid, listener);
	return CTL_DONE;
}
