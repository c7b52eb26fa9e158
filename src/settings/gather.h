/* Inside the settings: who gives what, before it is read. */
#ifndef TRIDENT_SETTINGS_GATHER_H
#define TRIDENT_SETTINGS_GATHER_H

#include "settings/view.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A variable of the environment; NULL if it is not set, or empty. */
const char *settings_variable(const char *name);

/* Fills view->given from all sources, the strongest of each. */
tri_status settings_gather(const struct settings_request *request, struct settings_view *view,
                           tri_error *err);

/* What a source is called in an error: "TRIDENT_RANK", "job.conf:3", "the program". */
void settings_source(const struct setting_given *given, char out[SETTINGS_ORIGIN]);

#ifdef __cplusplus
}
#endif

#endif
