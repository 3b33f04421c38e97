/* A GetStats document as OpenMetrics text, which Prometheus reads.  Pure. */
#pragma once
#include <jansson.h>
#include <stdio.h>

/* https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md */
void openmetrics_write(FILE *to, const json_t *stats);

/* Text with \, " and newline escaped as a label's value. */
void openmetrics_escape(FILE *to, const char *text);
