/* Telling a person what went wrong. */
#include "examples/report.h"

#include <stdio.h>

static void report_part(const char *title, const char *text)
{
    if (text[0] != '\0')
        fprintf(stderr, "  %-6s %s\n", title, text);
}

int report_error(const char *program, const tri_error *err)
{
    fprintf(stderr, "%s: %s\n", program, err->text);
    report_part("where:", err->where);
    report_part("why:", err->why);
    report_part("try:", err->next);
    return err->status == TRI_EINPUT ? 2 : 1;
}
