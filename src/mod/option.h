/* What a part can be told: rows for help, "trident modules" and the manual. */
#ifndef TRIDENT_MOD_OPTION_H
#define TRIDENT_MOD_OPTION_H

#ifdef __cplusplus
extern "C" {
#endif

/* Tables of these end in a row whose name is NULL. */
struct mod_option {
    const char *name;
    const char *fallback; /* the default, as a user would write it */
    const char *help;
};

#ifdef __cplusplus
}
#endif

#endif
