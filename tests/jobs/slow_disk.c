/* A disk that takes as long as a test wants, for LD_PRELOAD: fsync() tells by the file
 * SLOW_DISK.waits that it was called, and returns when there is a file SLOW_DISK. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int fsync(int fd)
{
    const char *gate = getenv("SLOW_DISK");
    char waits[512];
    if (gate != NULL && access(gate, F_OK) != 0) {
        (void)snprintf(waits, sizeof waits, "%s.waits", gate);
        int told = open(waits, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (told >= 0)
            (void)close(told);
        while (access(gate, F_OK) != 0)
            (void)usleep(1000);
    }
    return (int)syscall(SYS_fsync, fd);
}
