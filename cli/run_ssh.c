/* The command line of ssh. */
#include "cli/run_ssh.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/process.h"

/* Never asks for a password, since nobody could see it ask, and finds out when a host is gone. */
static const char usual[] = "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=10";

bool run_ssh_is_here(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "::1"};
    char own[256] = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(host, names[i]) == 0)
            return true;
    (void)gethostname(own, sizeof own - 1);
    size_t first = strcspn(own, ".");
    return own[0] != '\0' &&
           (strcmp(host, own) == 0 || (strlen(host) == first && memcmp(host, own, first) == 0));
}

void run_ssh_quote(struct buf *out, const char *text)
{
    buf_char(out, '\'');
    for (; *text != '\0'; text++)
        if (*text == '\'')
            buf_text(out, "'\\''");
        else
            buf_char(out, *text);
    buf_char(out, '\'');
}

/* Whatever shell the user has there, sh reads the line. */
static tri_status add_line(struct run_ssh *ssh, tri_error *err)
{
    char folder[PATH_MAX], own[PATH_MAX];
    struct buf line;
    ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);
    if (len < 0 || getcwd(folder, sizeof folder) == NULL)
        return fail_errno(err, TRI_EIO, "cannot find out which folder this is");
    own[len] = '\0';
    buf_init(&line, ssh->text.mem);
    buf_text(&line, "cd ");
    run_ssh_quote(&line, folder);
    buf_text(&line, " || exit 126; p=");
    run_ssh_quote(&line, own);
    buf_text(&line, "; [ -x \"$p\" ] || p=trident; exec \"$p\" run --deputy");
    buf_text(&ssh->text, "exec sh -c ");
    run_ssh_quote(&ssh->text, buf_string(&line));
    buf_char(&ssh->text, '\0');
    bool ok = buf_ok(&line);
    buf_fini(&line);
    return ok ? TRI_OK : fail_nomem(err, "a command line");
}

static tri_status list_words(struct run_ssh *ssh, tri_error *err)
{
    size_t count = 0;
    if (!buf_ok(&ssh->text))
        return fail_nomem(err, "a command line");
    for (size_t i = 0; i < ssh->text.len; i++)
        count += ssh->text.data[i] == '\0';
    ssh->words = mem_array(ssh->text.mem, count + 1, sizeof *ssh->words);
    if (ssh->words == NULL)
        return fail_nomem(err, "a command line");
    char *at = ssh->text.data;
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
        ssh->words[i] = at;
    return TRI_OK;
}

void run_ssh_init(struct run_ssh *ssh, const struct mem *mem)
{
    ssh->words = NULL;
    buf_init(&ssh->text, mem);
    buf_init(&ssh->path, mem);
}

void run_ssh_fini(struct run_ssh *ssh)
{
    mem_free(ssh->text.mem, (void *)ssh->words);
    buf_fini(&ssh->text);
    buf_fini(&ssh->path);
}

tri_status run_ssh_make(struct run_ssh *ssh, const char *command, const char *host, tri_error *err)
{
    const char *variable = getenv("TRIDENT_SSH");
    if (command == NULL)
        command = variable != NULL && variable[0] != '\0' ? variable : usual;
    command += strspn(command, " ");
    if (*command == '\0') {
        fail(err, TRI_EINPUT, "option '--ssh' has no command");
        fail_next(err, "give one that takes a host and a line for its shell, such as ssh -p 2222");
        return TRI_EINPUT;
    }
    while (*command != '\0') {
        size_t len = strcspn(command, " ");
        buf_add(&ssh->text, command, len);
        buf_char(&ssh->text, '\0');
        command += len + strspn(command + len, " ");
    }
    buf_add(&ssh->text, host, strlen(host) + 1);
    tri_status status = add_line(ssh, err);
    if (status == TRI_OK)
        status = list_words(ssh, err);
    return status == TRI_OK ? process_find(ssh->words[0], &ssh->path, err) : status;
}
