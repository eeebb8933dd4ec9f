/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "tests/unit/sriov/fake_numvfs.h"

#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);

/* Requests may come on a worker, where cmocka can't fail: what is wrong is kept for the end. */
static struct {
    const char *root;
    const struct numvfs_write *script;
    size_t n, done;
    char *wrong;
    pthread_t late[8];
    size_t late_n;
} kernel;

/* One PF's VFs as they are to be. */
struct making {
    char *pf_dir; /* under /sys/devices of the tree */
    unsigned count, late_ms;
    bool no_driver, no_netdev;
};

static void put(const char *dir, const char *name, const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "w");

    if (!f)
        abort();
    fprintf(f, "%s\n", text);
    fclose(f);
}

/* A link that is absolute within the tree. */
static void point(const char *dir, const char *name, const char *target)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);

    (void)unlink(path);
    if (symlink(str_skip(target, kernel.root), path) < 0)
        abort();
}

static char *vf_address(const char *pf_dir, unsigned index)
{
    const char *pf = strrchr(pf_dir, '/') + 1;

    return xasprintf("%.7s:%02x.%x", pf, 0x10 + index / 4, index % 4 * 2);
}

static char *vf_dir(const char *pf_dir, unsigned index)
{
    _cleanup_free_ char *address = vf_address(pf_dir, index);

    return xasprintf("%.*s%s", (int)(strrchr(pf_dir, '/') - pf_dir + 1), pf_dir, address);
}

static char *in_tree(const char *path)
{
    return xasprintf("%s/%s", kernel.root, path);
}

static void make_netdev(const char *dir, unsigned index)
{
    _cleanup_free_ char *name = xasprintf("vf%u", index), *net = xasprintf("%s/net", dir);
    _cleanup_free_ char *own = xasprintf("%s/%s", net, name), *classes = in_tree("sys/class/net");

    (void)mkdir(net, 0755);
    (void)mkdir(own, 0755);
    put(own, "flags", "0x1002");
    put(own, "mtu", "1500");
    put(own, "type", "1");
    point(classes, name, own);
}

static void make_vf(const struct making *m, unsigned index)
{
    _cleanup_free_ char *address = vf_address(m->pf_dir, index), *dir = vf_dir(m->pf_dir, index);
    _cleanup_free_ char *bus = in_tree("sys/bus/pci/devices"), *link = xasprintf("virtfn%u", index);
    _cleanup_free_ char *driver = in_tree("sys/bus/pci/drivers/igbvf");

    (void)mkdir(dir, 0755);
    put(dir, "class", "0x020000");
    put(dir, "vendor", "0x8086");
    put(dir, "device", "0x10ca");
    put(dir, "numa_node", "-1");
    if (!m->no_driver)
        point(dir, "driver", driver);
    if (!m->no_driver && !m->no_netdev)
        make_netdev(dir, index);
    point(dir, "physfn", m->pf_dir);
    point(bus, address, dir);
    point(m->pf_dir, link, dir);
}

static void remove_vfs(const char *pf_dir)
{
    _cleanup_free_ char *bus = in_tree("sys/bus/pci/devices");

    for (unsigned i = 0; i < 64; i++) {
        _cleanup_free_ char *dir = vf_dir(pf_dir, i), *address = vf_address(pf_dir, i);
        _cleanup_free_ char *link = xasprintf("%s/virtfn%u", pf_dir, i);
        _cleanup_free_ char *at = xasprintf("%s/%s", bus, address),
                            *cmd = xasprintf("rm -rf %s", dir);

        if (unlink(link) < 0)
            continue;
        (void)unlink(at);
        if (system(cmd) != 0)
            abort();
    }
}

static void *make_vfs(void *data)
{
    struct making *m = data;
    const struct timespec ts = {.tv_nsec = (long)m->late_ms * 1000000L};

    if (m->late_ms)
        (void)nanosleep(&ts, NULL);
    for (unsigned i = 0; i < m->count; i++)
        make_vf(m, i);
    free(m->pf_dir);
    free(m);
    return NULL;
}

/* The file is a plain one, and was emptied when it was opened. */
static void say(int fd, unsigned count)
{
    char number[16];
    int n = snprintf(number, sizeof(number), "%u\n", count);

    if (__real_write(fd, number, (size_t)n) < 0)
        abort();
}

static unsigned count_vfs(const char *pf_dir)
{
    unsigned n = 0;

    for (unsigned i = 0; i < 64; i++) {
        _cleanup_free_ char *link = xasprintf("%s/virtfn%u", pf_dir, i);
        struct stat st;

        n += lstat(link, &st) == 0;
    }
    return n;
}

static void wrong(const char *what, const char *text)
{
    if (!kernel.wrong)
        kernel.wrong = xasprintf("write %zu to sriov_numvfs, \"%s\": %s", kernel.done, text, what);
}

static ssize_t write_count(int fd, const char *path, const char *text)
{
    const struct numvfs_write *w = kernel.done < kernel.n ? &kernel.script[kernel.done] : NULL;
    _cleanup_free_ char *pf_dir = xstrndup(path, strlen(path) - strlen("/sriov_numvfs"));
    bool bad = !w || !streq(w->text, text);

    kernel.done++;
    if (bad)
        wrong(w ? w->text : "unexpected", text);
    if (bad || w->error) {
        say(fd, count_vfs(pf_dir));
        errno = bad ? EPROTO : w->error;
        return -1;
    }
    struct making *m = xnew(struct making);
    *m = (struct making){
        .pf_dir = xstrdup(pf_dir),
        .count = (unsigned)atoi(text) - w->fewer,
        .late_ms = w->late_ms,
        .no_driver = w->no_driver,
        .no_netdev = w->no_netdev,
    };
    say(fd, m->count);
    remove_vfs(m->pf_dir);
    if (m->late_ms)
        pthread_create(&kernel.late[kernel.late_n++], NULL, make_vfs, m);
    else
        make_vfs(m);
    return (ssize_t)strlen(text);
}

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    char self[32], path[PATH_MAX];

    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    ssize_t n = kernel.root ? readlink(self, path, sizeof(path) - 1) : -1;
    if (n < 0)
        return __real_write(fd, data, len);
    path[n] = '\0';
    const char *name = strrchr(path, '/');
    if (!name || !streq(name, "/sriov_numvfs"))
        return __real_write(fd, data, len);
    _cleanup_free_ char *text = xstrndup(data, len);
    return write_count(fd, path, text);
}

void fake_numvfs_start(const char *root, const struct numvfs_write *script, size_t n)
{
    _cleanup_free_ char *cmd = xasprintf("mkdir -p %s/sys/bus/pci/drivers/igbvf", root);

    assert_int_equal(system(cmd), 0);
    memset(&kernel, 0, sizeof(kernel));
    kernel.root = root;
    kernel.script = script;
    kernel.n = n;
}

size_t fake_numvfs_end(void)
{
    _cleanup_free_ char *what = kernel.wrong;
    size_t done = kernel.done;

    for (size_t i = 0; i < kernel.late_n; i++)
        pthread_join(kernel.late[i], NULL);
    memset(&kernel, 0, sizeof(kernel));
    if (what)
        fail_msg("%s", what);
    return done;
}
