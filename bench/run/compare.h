/* A measurement with daemons that are started for it. */
#pragma once
#include "ctl.h"

/* Measures ctl->rest against daemons that serve ctl->specs, by the options of ctl, and shows the
 * result; chooses the control socket.  An exit code. */
int compare_serving(struct ctl *ctl);

/* Writes the page of saved rows.  An exit code. */
int compare_page(const char *path, const char *rows);
