/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/store.h"

#include "base/crc32.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define MAGIC         "sriov-dra claim record crc32="
#define RECORD_MAX    (1 << 20)
#define NOTE          ".sandbox"
#define SANDBOX_MAX   255
#define LOCK          "attach.lock"
#define SWEEP_WAIT_MS 1000
#define HEADER_SIZE   (sizeof(MAGIC) - 1 + 8 + 1)

int store_open(const char *path, struct store *ret, struct err *e)
{
    _cleanup_close_ int fd = -1, lock = -1;
    int r = dir_make(path, 0700, &fd, e);

    if (r < 0)
        return err_prefix(e, r, "state directory");
    /* A hook at work has a temporary file too. What is left this time goes the next. */
    r = file_lock_wait(fd, LOCK, SWEEP_WAIT_MS, &lock, e);
    if (r == 0)
        r = file_sweep(fd, e);
    if (r == -EBUSY && e)
        err_clear(e);
    else if (r < 0 && r != -EBUSY)
        return err_prefix(e, r, "state directory %s", path);
    *ret = (struct store){.dirfd = TAKE_FD(fd), .path = xstrdup(path)};
    return 0;
}

int store_open_existing(const char *path, struct store *ret, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(e, -errno, "state directory %s", path);
    *ret = (struct store){.dirfd = fd, .path = xstrdup(path)};
    return 0;
}

void store_done(struct store *s)
{
    if (s->path)
        close(s->dirfd);
    free(s->path);
    *s = (struct store){.dirfd = -1};
}

int store_save(const struct store *s, const struct record *r, struct err *e)
{
    json_auto_t *doc = record_json(r);
    _cleanup_free_ char *body = json_dumps(doc, JSON_INDENT(1) | JSON_SORT_KEYS);
    _cleanup_free_ char *name = xasprintf("%s.json", r->uid);
    size_t len = strlen(body);
    _cleanup_free_ char *text = xasprintf(MAGIC "%08x\n%s", crc32(body, len), body);
    int ret = file_write_atomic(s->dirfd, name, text, HEADER_SIZE + len, 0600, true, e);

    return ret < 0
               ? err_prefix(e, ret, "journal of claim %s/%s in %s", r->namespace, r->name, s->path)
               : 0;
}

int store_remove(const struct store *s, const char *uid, struct err *e)
{
    _cleanup_free_ char *name = xasprintf("%s.json", uid), *note = xasprintf("%s" NOTE, uid);
    int r = file_remove(s->dirfd, note, false, e);

    if (r == 0)
        r = file_remove(s->dirfd, name, true, e);
    return r < 0 ? err_prefix(e, r, "journal in %s", s->path) : 0;
}

int store_note_sandbox(const struct store *s, const char *uid, const char *sandbox_id,
                       struct err *e)
{
    _cleanup_free_ char *name = xasprintf("%s" NOTE, uid);
    int r = file_write_atomic(s->dirfd, name, sandbox_id, strlen(sandbox_id), 0600, false, e);

    return r < 0 ? err_prefix(e, r, "%s/%s", s->path, name) : 0;
}

char *store_sandbox(const struct store *s, const char *uid)
{
    _cleanup_free_ char *name = xasprintf("%s" NOTE, uid);
    char *id = NULL;

    (void)file_read(s->dirfd, name, SANDBOX_MAX, &id, NULL, NULL);
    return id;
}

int store_drop_sandbox(const struct store *s, const char *uid, struct err *e)
{
    _cleanup_free_ char *name = xasprintf("%s" NOTE, uid);
    int r = file_remove(s->dirfd, name, false, e);

    return r < 0 ? err_prefix(e, r, "%s/%s", s->path, name) : 0;
}

int store_lock(const struct store *s, int64_t wait_ms, int *ret_fd, struct err *e)
{
    int r = file_lock_wait(s->dirfd, LOCK, wait_ms, ret_fd, e);

    if (r == -EBUSY)
        return err_set(e, ERR_TRANSIENT, r,
                       "another program, which holds %s/" LOCK
                       ", is still moving VFs on this node; tried again",
                       s->path);
    return r < 0 ? err_prefix(e, r, "%s", s->path) : 0;
}

void store_content_done(struct store_content *c)
{
    vec_foreach (r, &c->records)
        record_free(*r);
    vec_foreach (b, &c->bad) {
        free(b->file);
        free(b->why);
    }
    free(c->records.v);
    free(c->bad.v);
    memset(c, 0, sizeof(*c));
}

static int load_one(const struct store *s, const char *name, struct record **ret, struct err *e)
{
    _cleanup_free_ char *text = NULL, *expected = NULL;
    json_t *doc;
    size_t len;
    int r = file_read(s->dirfd, name, RECORD_MAX, &text, &len, e);

    if (r < 0)
        return r;
    if (len <= HEADER_SIZE || text[HEADER_SIZE - 1] != '\n')
        return err_set(e, ERR_PERMANENT, -EBADMSG, "%zu bytes long, without a whole header", len);
    expected = xasprintf(MAGIC "%08x\n", crc32(text + HEADER_SIZE, len - HEADER_SIZE));
    if (memcmp(text, expected, HEADER_SIZE) != 0)
        return err_set(e, ERR_PERMANENT, -EBADMSG, "its checksum doesn't fit its content");
    r = json_parse(text + HEADER_SIZE, len - HEADER_SIZE, &doc, e);
    if (r < 0)
        return r;
    json_auto_t *owned = doc;
    r = record_parse(owned, ret, e);
    if (r < 0)
        return r;
    _cleanup_free_ char *own = xasprintf("%s.json", (*ret)->uid);
    if (!streq(own, name)) {
        record_free(*ret);
        *ret = NULL;
        return err_set(e, ERR_PERMANENT, -EBADMSG, "it is the record of another claim (%s)", own);
    }
    return 0;
}

int store_get(const struct store *s, const char *uid, struct record **ret, struct err *e)
{
    _cleanup_free_ char *name = xasprintf("%s.json", uid);
    struct record *rec = NULL;
    int r = load_one(s, name, &rec, e);

    if (r < 0)
        return err_prefix(e, r, "%s/%s", s->path, name);
    *ret = rec;
    return 0;
}

/* A file that can't be read may be a good one: nothing is set aside for that. */
static int set_aside(const struct store *s, const char *name, struct store_content *c,
                     struct err *why, struct err *e)
{
    if (why->code != -EBADMSG && why->code != -EINVAL && why->code != -EFBIG)
        return err_prefix(e, err_move(e, why), "%s/%s", s->path, name);
    _cleanup_free_ char *aside = xasprintf("%s.bad", name);
    if (renameat(s->dirfd, name, s->dirfd, aside) < 0)
        return err_errno(e, -errno, "setting %s/%s aside", s->path, name);
    *VEC_PUSH(&c->bad) =
        (struct store_bad){xasprintf("%s/%s", s->path, aside), xstrdup(err_text(why))};
    return 0;
}

static int load_entry(const struct store *s, const char *name, bool look, struct store_content *c,
                      struct err *e)
{
    _cleanup_err_ struct err why = ERR_INIT;
    struct record *rec = NULL;
    size_t n = strlen(name);

    if (n > 4 && streq(name + n - 4, ".bad")) {
        *VEC_PUSH(&c->bad) =
            (struct store_bad){xasprintf("%s/%s", s->path, name), xstrdup("set aside earlier")};
        return 0;
    }
    if (n <= 5 || !streq(name + n - 5, ".json"))
        return 0;
    int r = load_one(s, name, &rec, &why);
    if (r == 0) {
        *VEC_PUSH(&c->records) = rec;
        return 0;
    }
    if (!look)
        return set_aside(s, name, c, &why, e);
    if (r != -ENOENT) /* released meanwhile */
        *VEC_PUSH(&c->bad) =
            (struct store_bad){xasprintf("%s/%s", s->path, name), xstrdup(err_text(&why))};
    return 0;
}

static int load(const struct store *s, bool look, struct store_content *ret, struct err *e)
{
    struct store_content c = {0};
    struct dirent **names = NULL;
    /* sorted, so that a start does the same each time */
    int n = scandirat(s->dirfd, ".", &names, NULL, alphasort), r = 0;

    if (n < 0)
        return err_errno(e, -errno, "listing %s", s->path);
    for (int i = 0; i < n; i++) {
        if (r == 0)
            r = load_entry(s, names[i]->d_name, look, &c, e);
        free(names[i]);
    }
    free(names);
    if (r < 0) {
        store_content_done(&c);
        return r;
    }
    *ret = c;
    return 0;
}

int store_load(const struct store *s, struct store_content *ret, struct err *e)
{
    return load(s, false, ret, e);
}

int store_look(const char *path, struct store_content *ret, struct err *e)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct store s = {.dirfd = fd, .path = (char *)path}; /* borrowed: nothing frees it */

    if (fd < 0)
        return err_errno(e, -errno, "%s", path);
    return load(&s, true, ret, e);
}
