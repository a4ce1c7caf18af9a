/* For tests, by LD_PRELOAD: counts what a process asks of the system for the files whose paths begin with FAULTS_PATH, and makes call number
 * FAULTS_AT of those in FAULTS_CALLS do what FAULTS_DO says. Reads its orders from the file FAULTS_ORDERS, which the tests may map and change
 * at any time; writes what was asked, in its order and with what was written, to FAULTS_LOG.
 *
 * Orders (all of 64 bits): at, count (calls so far), act, code, calls (bits), pid (0: any). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, WRITE = 2, SYNC = 4, TRUNCATE = 8, MAP = 16, RENAME = 32, FUTEX = 64 };
enum { FAIL = 1, SHORT = 2, KILL_BEFORE = 3, KILL_AFTER = 4, KILL_WITHIN = 5, FAIL_ON = 6, SHORT_ON = 7 };

struct orders {
    volatile int64_t at, count, act, code, calls, pid;
};
static struct orders none, *orders = &none;
static const char *path;
static size_t path_length;
static int log_fd = -1;

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("FAULTS_ORDERS"), *log = getenv("FAULTS_LOG");
    path = getenv("FAULTS_PATH");
    path_length = path ? strlen(path) : 0;
    if (file) {
        int fd = syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
        void *map = fd < 0 ? MAP_FAILED : (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED) orders = map;
        if (fd >= 0) syscall(SYS_close, fd);
    }
    if (log) log_fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

static int ours_named(const char *name) {
    char resolved[PATH_MAX];
    if (!path_length || !name) return 0;
    if (name[0] != '/') {
        if (!getcwd(resolved, sizeof resolved)) return 0;
        strncat(resolved, "/", sizeof resolved - strlen(resolved) - 1);
        strncat(resolved, name, sizeof resolved - strlen(resolved) - 1);
        name = resolved;
    }
    return !strncmp(name, path, path_length);
}

static int ours(int fd) {
    char link[64], name[PATH_MAX];
    if (!path_length || fd < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length <= 0) return 0;
    name[length] = 0;
    return ours_named(name);
}

/* What is to become of this call; 0: nothing. */
static int order(int call) {
    if (!(orders->calls & call) || (orders->pid && orders->pid != getpid())) return 0;
    int64_t number = __sync_add_and_fetch(&orders->count, 1);
    if (!orders->act || !orders->at) return 0;
    int on = orders->act == FAIL_ON || orders->act == SHORT_ON;
    if (on ? number < orders->at : number != orders->at) return 0;
    errno = (int)orders->code;
    return (int)orders->act;
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* kind, length, offset and device-free name follow in the log: a line, and the bytes. */
static void note(char kind, int fd, off_t at, const struct iovec *parts, int count, size_t length) {
    if (log_fd < 0) return;
    char head[96];
    struct stat stat;
    if (fstat(fd, &stat)) stat.st_ino = 0;
    int used = snprintf(head, sizeof head, "%c %lu %ld %zu\n", kind, (unsigned long)stat.st_ino, (long)at, length);
    struct iovec all[66] = {{head, used}};
    int n = 1;
    for (int i = 0; i < count && length > 0 && n < 66; i++, n++) {
        all[n] = parts[i];
        if (all[n].iov_len > length) all[n].iov_len = length;
        length -= all[n].iov_len;
    }
    syscall(SYS_writev, log_fd, all, n);
}

static ssize_t write_at(int fd, const struct iovec *parts, int count, off_t at) {
    size_t length = 0;
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    int act = order(WRITE);
    struct iovec some[66];
    int some_count = 0;
    size_t most = length;
    switch (act) {
    case FAIL:
    case FAIL_ON: return -1;
    case KILL_BEFORE: die();
    case SHORT:
    case SHORT_ON:
    case KILL_WITHIN: most = length >= 8192 ? length / 2 / 4096 * 4096 : act == KILL_WITHIN || length < 2 ? length : length / 2;
    }
    for (size_t left = most; some_count < count && some_count < 66 && left > 0; some_count++) {
        some[some_count] = parts[some_count];
        if (some[some_count].iov_len > left) some[some_count].iov_len = left;
        left -= some[some_count].iov_len;
    }
    ssize_t done = syscall(SYS_pwritev, fd, some, some_count, (long)at, 0L);
    if (done >= 0) {
        int flags = fcntl(fd, F_GETFL);
        note(flags & O_DSYNC ? 'S' : 'W', fd, at, some, some_count, done);
    }
    if (act == KILL_AFTER || act == KILL_WITHIN) die();
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    struct iovec part = {(void *)bytes, length};
    if (ours(fd)) return write_at(fd, &part, 1, at);
    return syscall(SYS_pwrite64, fd, bytes, length, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return pwrite(fd, bytes, length, at); }

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    if (ours(fd)) return write_at(fd, parts, count, at);
    return syscall(SYS_pwritev, fd, parts, count, (long)at, 0L);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return pwritev(fd, parts, count, at); }

ssize_t write(int fd, const void *bytes, size_t length) {
    struct iovec part = {(void *)bytes, length};
    if (ours(fd)) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        ssize_t done = write_at(fd, &part, 1, at);
        if (done > 0) lseek(fd, at + done, SEEK_SET);
        return done;
    }
    return syscall(SYS_write, fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (ours(fd)) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        ssize_t done = write_at(fd, parts, count, at);
        if (done > 0) lseek(fd, at + done, SEEK_SET);
        return done;
    }
    return syscall(SYS_writev, fd, parts, count);
}

/* A call of the kind `call` that is done by `doing`. */
#define PLAIN(call, doing, kind, fd) \
    do { \
        int act = order(call); \
        if (act == FAIL || act == FAIL_ON) return -1; \
        if (act == KILL_BEFORE) die(); \
        int done = doing; \
        if (done >= 0) note(kind, fd, 0, NULL, 0, 0); \
        if (act == KILL_AFTER || act == KILL_WITHIN) die(); \
        return done; \
    } while (0)

int fdatasync(int fd) {
    if (ours(fd)) PLAIN(SYNC, syscall(SYS_fdatasync, fd), 'B', fd);
    return syscall(SYS_fdatasync, fd);
}
int fsync(int fd) {
    if (ours(fd)) PLAIN(SYNC, syscall(SYS_fsync, fd), 'B', fd);
    return syscall(SYS_fsync, fd);
}
int msync(void *at, size_t length, int flags) {
    int act = order(SYNC);
    if (act == FAIL || act == FAIL_ON) return -1;
    return syscall(SYS_msync, at, length, flags);
}
int ftruncate(int fd, off_t length) {
    if (ours(fd)) {
        int act = order(TRUNCATE);
        if (act == FAIL || act == FAIL_ON) return -1;
        if (act == KILL_BEFORE) die();
        int done = syscall(SYS_ftruncate, fd, length);
        if (!done) note('T', fd, length, NULL, 0, 0);
        if (act == KILL_AFTER || act == KILL_WITHIN) die();
        return done;
    }
    return syscall(SYS_ftruncate, fd, length);
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t from) {
    if (fd >= 0 && ours(fd)) {
        int act = order(MAP);
        if (act == FAIL || act == FAIL_ON) return MAP_FAILED;
        if (act >= KILL_BEFORE && act <= KILL_WITHIN) die();
    }
    return (void *)syscall(SYS_mmap, at, length, protection, flags, fd, from);
}
void *mmap64(void *at, size_t length, int protection, int flags, int fd, off_t from) { return mmap(at, length, protection, flags, fd, from); }

static int opening(int folder, const char *name, int flags, int mode) {
    if (ours_named(name)) {
        int act = order(OPEN);
        if (act == FAIL || act == FAIL_ON) return -1;
        if (act == KILL_BEFORE) die();
        int fd = syscall(SYS_openat, folder, name, flags, mode);
        if (act == KILL_AFTER || act == KILL_WITHIN) die();
        return fd;
    }
    return syscall(SYS_openat, folder, name, flags, mode);
}
#define MODE \
    int mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, int); \
        va_end(more); \
    }
int open(const char *name, int flags, ...) { MODE return opening(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE return opening(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE return opening(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE return opening(folder, name, flags, mode); }

int rename(const char *from, const char *to) {
    if (ours_named(to)) {
        int act = order(RENAME);
        if (act == FAIL || act == FAIL_ON) return -1;
        if (act == KILL_BEFORE) die();
        int done = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
        if (act == KILL_AFTER || act == KILL_WITHIN) die();
        return done;
    }
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* What LMDB's writers hold: the end of one is a moment in the commit, too. */
int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    static int (*unlock)(pthread_mutex_t *);
    if (!unlock) unlock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    if ((orders->calls & FUTEX) && (mutex->__data.__kind & 128)) {
        int act = order(FUTEX);
        if (act == KILL_BEFORE) die();
        int done = unlock(mutex);
        if (act == KILL_AFTER || act == KILL_WITHIN) die();
        return done;
    }
    return unlock(mutex);
}
