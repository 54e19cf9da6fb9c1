// Faults below libc, for a process this is loaded into before everything else: operations on files below a folder are
// counted, and at a chosen one the process is killed, a write is torn, an error is returned, or the power is lost.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OFF, COUNT, KILL, TORN, ENOSPC_FROM_HERE, EIO_ONCE, POWER };
enum outcome { GO_ON, FAIL, TEAR };
// What a full disk refuses: whatever needs room. Removing, syncing and cutting need none.
enum need { NO_ROOM, ROOM };

static volatile enum kind armed = OFF;
// Set while this thread's own calls are not to be counted; all others wait at the mutex.
static __thread int inside;
#define IS_ON (armed != OFF && !inside)
#define LOSES_POWER (armed == POWER && !inside)
static long fatal, seen;
static char folder[PATH_MAX];
static size_t folder_length;
static int journal = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// What a power loss takes back: the bytes that a write replaced, until its file is synced, the newest first.
struct undo { struct undo *next; int file; off_t offset; ssize_t length; off_t size; char bytes[]; };
static struct undo *undone_first;
// A file by its identity, with a descriptor of our own: names may change and others may close theirs.
struct known { struct known *next; dev_t device; ino_t inode; int file; };
static struct known *files;

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static int is_below(const char *path) {
    return folder_length && !strncmp(path, folder, folder_length);
}

static int place_of(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_below(path);
}

// A name may stand relative to a folder that is open, as when a tree is removed.
static int place_at(int at, const char *name, char *path) {
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char base[PATH_MAX];
        if (at == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return 0;
        } else {
            place_of(at, base);
        }
        size_t length = strlen(base);
        snprintf(path, PATH_MAX, "%s", base);
        snprintf(path + length, PATH_MAX - length, "/%s", name);
    }
    return is_below(path);
}

static void lose_unsynced(void) {
    for (struct undo *one = undone_first; one; one = one->next) {
        if (one->length > 0 && pwrite(one->file, one->bytes, one->length, one->offset) < 0) continue;
        if (ftruncate(one->file, one->size)) continue;
    }
}

static void die(void) {
    inside = 1;
    if (armed == POWER) lose_unsynced();
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static enum outcome step(const char *operation, const char *path, enum need need) {
    enum outcome outcome = GO_ON;
    pthread_mutex_lock(&mutex);
    long number = ++seen;
    if (journal >= 0) dprintf(journal, "%s %s\n", operation, path + folder_length);
    if (armed == ENOSPC_FROM_HERE && number >= fatal && need == ROOM) {
        errno = ENOSPC;
        outcome = FAIL;
    } else if (number == fatal) {
        if (armed == KILL || armed == POWER) die();
        if (armed == TORN) outcome = TEAR;
        if (armed == EIO_ONCE) {
            errno = EIO;
            outcome = FAIL;
        }
    }
    pthread_mutex_unlock(&mutex);
    return outcome;
}

static int own_descriptor(int file, const struct stat *status) {
    for (struct known *one = files; one; one = one->next)
        if (one->device == status->st_dev && one->inode == status->st_ino) return one->file;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    struct known *one = malloc(sizeof *one);
    inside = 1;
    *one = (struct known){files, status->st_dev, status->st_ino, open(link, O_RDWR | O_CLOEXEC)};
    inside = 0;
    files = one;
    return one->file;
}

// Before a write: keep what stood there.
static void note(int file, off_t offset, size_t length) {
    struct stat status;
    if (armed != POWER || fstat(file, &status) || !S_ISREG(status.st_mode)) return;
    pthread_mutex_lock(&mutex);
    int own = own_descriptor(file, &status);
    if (offset < 0) offset = fcntl(file, F_GETFL) & O_APPEND ? status.st_size : lseek(file, 0, SEEK_CUR);
    struct undo *one = malloc(sizeof *one + length);
    *one = (struct undo){undone_first, own, offset, 0, status.st_size};
    one->length = pread(own, one->bytes, length, offset);
    undone_first = one;
    pthread_mutex_unlock(&mutex);
}

// After a sync nothing of this file is taken back any more.
static void forget(int file) {
    struct stat status;
    if (armed != POWER || fstat(file, &status)) return;
    pthread_mutex_lock(&mutex);
    int own = own_descriptor(file, &status);
    for (struct undo **place = &undone_first; *place;) {
        struct undo *one = *place;
        if (one->file != own) {
            place = &one->next;
        } else {
            *place = one->next;
            free(one);
        }
    }
    pthread_mutex_unlock(&mutex);
}

void faults_arm(int kind, long number, const char *below, const char *journal_path) {
    snprintf(folder, sizeof folder, "%s", below);
    folder_length = strlen(folder);
    fatal = number;
    seen = 0;
    if (journal_path) journal = open(journal_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    armed = kind;
}

// The power goes after the command has said that it is done.
void faults_die(void) {
    pthread_mutex_lock(&mutex);
    die();
}

long faults_disarm(void) {
    armed = OFF;
    return seen;
}

// The faulty call itself: `tear` is what is still done of a torn one.
#define FAULTY(is_mine, operation, need, tear) \
    if (IS_ON && (is_mine)) { \
        enum outcome outcome = step(operation, path, need); \
        if (outcome == FAIL) return -1; \
        if (outcome == TEAR) { tear; die(); } \
    }

#define WRITER(name, parameters, file, offset, length, tear, ...) \
    ssize_t name parameters { \
        REAL(ssize_t, name, PARAMETERS_##name); \
        char path[PATH_MAX]; \
        if (LOSES_POWER && place_of(file, path)) note(file, offset, length); \
        FAULTY(place_of(file, path), #name, ROOM, tear) \
        return real(__VA_ARGS__); \
    }

#define PARAMETERS_write int, const void *, size_t
#define PARAMETERS_pwrite int, const void *, size_t, off_t
#define PARAMETERS_pwrite64 int, const void *, size_t, off_t
#define PARAMETERS_writev int, const struct iovec *, int
#define PARAMETERS_pwritev int, const struct iovec *, int, off_t
#define PARAMETERS_pwritev64 int, const struct iovec *, int, off_t
#define PARAMETERS_sendfile int, int, off_t *, size_t
#define PARAMETERS_sendfile64 int, int, off_t *, size_t
#define PARAMETERS_copy_file_range int, off_t *, int, off_t *, size_t, unsigned

static size_t total(const struct iovec *parts, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += parts[i].iov_len;
    return sum;
}

WRITER(write, (int file, const void *bytes, size_t length), file, -1, length,
       if (real(file, bytes, length / 2)) {}, file, bytes, length)
WRITER(pwrite, (int file, const void *bytes, size_t length, off_t offset), file, offset, length,
       if (real(file, bytes, length / 2, offset)) {}, file, bytes, length, offset)
WRITER(pwrite64, (int file, const void *bytes, size_t length, off_t offset), file, offset, length,
       if (real(file, bytes, length / 2, offset)) {}, file, bytes, length, offset)
WRITER(writev, (int file, const struct iovec *parts, int count), file, -1, total(parts, count),
       if (real(file, parts, count / 2)) {}, file, parts, count)
WRITER(pwritev, (int file, const struct iovec *parts, int count, off_t offset), file, offset, total(parts, count),
       if (real(file, parts, count / 2, offset)) {}, file, parts, count, offset)
WRITER(pwritev64, (int file, const struct iovec *parts, int count, off_t offset), file, offset, total(parts, count),
       if (real(file, parts, count / 2, offset)) {}, file, parts, count, offset)
WRITER(sendfile, (int file, int from, off_t *offset, size_t length), file, -1, 0,
       if (real(file, from, offset, length / 2)) {}, file, from, offset, length)
WRITER(sendfile64, (int file, int from, off_t *offset, size_t length), file, -1, 0,
       if (real(file, from, offset, length / 2)) {}, file, from, offset, length)
WRITER(copy_file_range, (int from, off_t *start, int file, off_t *offset, size_t length, unsigned flags), file,
       offset ? *offset : -1, 0, if (real(from, start, file, offset, length / 2, flags)) {},
       from, start, file, offset, length, flags)

#define SYNCER(name) \
    int name(int file) { \
        REAL(int, name, int); \
        char path[PATH_MAX]; \
        int is_mine = IS_ON && place_of(file, path); \
        FAULTY(is_mine, #name, NO_ROOM, ) \
        int failed = real(file); \
        if (is_mine && !failed) forget(file); \
        return failed; \
    }
SYNCER(fsync)
SYNCER(fdatasync)

// What is cut off comes back with a power loss, until the file is synced.
#define CUTTER(name) \
    int name(int file, off_t size) { \
        REAL(int, name, int, off_t); \
        char path[PATH_MAX]; \
        struct stat status; \
        if (LOSES_POWER && place_of(file, path) && !fstat(file, &status)) \
            note(file, size, status.st_size > size ? status.st_size - size : 0); \
        FAULTY(place_of(file, path), #name, NO_ROOM, ) \
        return real(file, size); \
    }
CUTTER(ftruncate)
CUTTER(ftruncate64)

#define NAMED(name, parameters, types, at, file_name, need, ...) \
    int name parameters { \
        REAL(int, name, types); \
        char path[PATH_MAX]; \
        FAULTY(place_at(at, file_name, path), #name, need, ) \
        return real(__VA_ARGS__); \
    }
#define TYPES(...) __VA_ARGS__

NAMED(rename, (const char *from, const char *to), TYPES(const char *, const char *), AT_FDCWD, to, ROOM, from, to)
NAMED(renameat, (int at, const char *from, int to_at, const char *to), TYPES(int, const char *, int, const char *),
      to_at, to, ROOM, at, from, to_at, to)
NAMED(link, (const char *from, const char *to), TYPES(const char *, const char *), AT_FDCWD, to, ROOM, from, to)
NAMED(linkat, (int at, const char *from, int to_at, const char *to, int flags),
      TYPES(int, const char *, int, const char *, int), to_at, to, ROOM, at, from, to_at, to, flags)
NAMED(unlink, (const char *name), TYPES(const char *), AT_FDCWD, name, NO_ROOM, name)
NAMED(unlinkat, (int at, const char *name, int flags), TYPES(int, const char *, int), at, name, NO_ROOM, at, name, flags)
NAMED(rmdir, (const char *name), TYPES(const char *), AT_FDCWD, name, NO_ROOM, name)
NAMED(mkdir, (const char *name, mode_t mode), TYPES(const char *, mode_t), AT_FDCWD, name, ROOM, name, mode)
NAMED(mkdirat, (int at, const char *name, mode_t mode), TYPES(int, const char *, mode_t), at, name, ROOM, at, name, mode)

// Only opening that makes or empties a file changes something; of an emptied one the bytes are kept for a power loss.
static void note_emptied(const char *path) {
    struct stat status;
    inside = 1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    inside = 0;
    if (file < 0) return;
    if (!fstat(file, &status) && status.st_size) note(file, 0, status.st_size);
    close(file);
}

#define OPENER(name, parameters, types, at, ...) \
    int name parameters { \
        REAL(int, name, types, ...); \
        char path[PATH_MAX]; \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (IS_ON && flags & (O_CREAT | O_TRUNC)) { \
            FAULTY(place_at(at, file_name, path), #name, ROOM, ) \
            if (LOSES_POWER && flags & O_TRUNC && is_below(path)) note_emptied(path); \
        } \
        return real(__VA_ARGS__, flags, mode); \
    }
OPENER(open, (const char *file_name, int flags, ...), TYPES(const char *, int), AT_FDCWD, file_name)
OPENER(open64, (const char *file_name, int flags, ...), TYPES(const char *, int), AT_FDCWD, file_name)
OPENER(openat, (int at, const char *file_name, int flags, ...), TYPES(int, const char *, int), at, at, file_name)
OPENER(openat64, (int at, const char *file_name, int flags, ...), TYPES(int, const char *, int), at, at, file_name)
