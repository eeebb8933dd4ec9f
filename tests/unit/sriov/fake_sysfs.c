/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "tests/unit/sriov/fake_sysfs.h"

#include "base/file.h"
#include "base/str.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#define MAX_KEYS 32

struct builder {
    char *root;
    char pf[32];      /* address of the last PF */
    char *pf_dir;     /* its folder, relative to the root */
    char bridge[128]; /* "pci0000:00/0000:00:01.0" */
    unsigned next_index;
};

struct line {
    char *words[MAX_KEYS];
    size_t n;
};

static const char *value(const struct line *l, const char *key, const char *fallback)
{
    for (size_t i = 2; i < l->n; i++) {
        const char *v = str_skip(l->words[i], key);
        if (v && *v == '=')
            return v + 1;
    }
    return fallback;
}

/* Makes the folders above `path`, and `path` itself if it ends in "/". */
static void make_dirs(const struct builder *b, const char *path)
{
    _cleanup_free_ char *whole = xasprintf("%s/%s", b->root, path);

    for (char *slash = strchr(whole + strlen(b->root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(whole, 0755);
        *slash = '/';
    }
}

/* "!" as the text makes an attribute that can't be read. */
static void make_file(const struct builder *b, const char *dir, const char *name, const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/%s%s", dir, name, streq(text, "!") ? "/" : "");
    _cleanup_free_ char *whole = xasprintf("%s/%s", b->root, path);

    make_dirs(b, path);
    if (streq(text, "!"))
        return;
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    assert_int_equal(fclose(f), 0);
}

/* A relative link at `path` to `target`, both from the root, as deep as `path` is. */
static void make_link(const struct builder *b, const char *path, const char *target)
{
    _cleanup_free_ char *whole = xasprintf("%s/%s", b->root, path);
    struct strbuf to = {0};

    make_dirs(b, path);
    for (const char *c = path; *c; c++) {
        if (*c == '/')
            strbuf_puts(&to, "../");
    }
    strbuf_puts(&to, target);
    if (symlink(to.s, whole) < 0)
        fail_msg("link %s", whole);
    strbuf_done(&to);
}

static void add_netdev(const struct builder *b, const char *dir, const struct line *l,
                       const char *names)
{
    _cleanup_free_ char *list = xstrdup(names), *net = xasprintf("%s/net/", dir);
    char *save = NULL;

    make_dirs(b, net);
    if (streq(names, "-")) /* its interface is in another namespace */
        return;
    for (char *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        char *port = strchr(name, '@'), *number = strchr(name, ':');

        if (port)
            *port++ = '\0';
        if (number)
            *number++ = '\0';
        _cleanup_free_ char *at = xasprintf("%s/net/%s", dir, name);
        _cleanup_free_ char *class = xasprintf("sys/class/net/%s", name);
        if (port)
            make_file(b, at, "phys_port_name", port);
        make_file(b, at, "dev_port", number ? number : "0");
        make_file(b, at, "type", value(l, "type", "1"));
        make_file(b, at, "mtu", value(l, "mtu", "1500"));
        make_file(b, at, "flags", value(l, "flags", "0x1003"));
        make_file(b, at, "carrier", value(l, "carrier", "1"));
        make_file(b, at, "speed", value(l, "speed", "1000"));
        make_link(b, class, at);
    }
}

/* A PCI function in `dir` with what every function has. */
static void add_function(const struct builder *b, const char *dir, const struct line *l,
                         const char *address, const char *vendor, const char *device)
{
    static const char *const links[][3] = {
        {"driver", "sys/bus/pci/drivers"},
        {"iommu_group", "sys/kernel/iommu_groups"},
    };
    _cleanup_free_ char *bus = xasprintf("sys/bus/pci/devices/%s", address);
    const char *net = value(l, "net", NULL), *rdma = value(l, "rdma", NULL);

    make_link(b, bus, dir);
    make_file(b, dir, "class", value(l, "class", "0x020000"));
    make_file(b, dir, "vendor", value(l, "vendor", vendor));
    make_file(b, dir, "device", value(l, "device", device));
    make_file(b, dir, "numa_node", value(l, "numa_node", "0"));
    for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
        const char *to = value(l, links[i][0], NULL);
        if (!to)
            continue;
        _cleanup_free_ char *from = xasprintf("%s/%s", dir, links[i][0]);
        _cleanup_free_ char *target = xasprintf("%s/%s", links[i][1], to);
        _cleanup_free_ char *folder = xasprintf("%s/", target);
        make_dirs(b, folder);
        make_link(b, from, target);
    }
    if (net)
        add_netdev(b, dir, l, net);
    if (rdma) {
        _cleanup_free_ char *at = xasprintf("%s/infiniband/%s/", dir, rdma);
        make_dirs(b, at);
    }
}

static void add_pf(struct builder *b, const struct line *l)
{
    const char *address = l->words[1];

    snprintf(b->pf, sizeof(b->pf), "%s", address);
    snprintf(b->bridge, sizeof(b->bridge), "%s", value(l, "below", "pci0000:00/0000:00:01.0"));
    free(b->pf_dir);
    b->pf_dir = xasprintf("sys/devices/%s/%s", b->bridge, address);
    b->next_index = 0;
    add_function(b, b->pf_dir, l, address, "0x8086", "0x10c9");
    make_file(b, b->pf_dir, "sriov_totalvfs", value(l, "total", "7"));
    make_file(b, b->pf_dir, "sriov_numvfs", value(l, "num", "7"));
    make_file(b, b->pf_dir, "sriov_drivers_autoprobe", value(l, "autoprobe", "1"));
}

static void add_vf(struct builder *b, const struct line *l, const char *address, unsigned index)
{
    _cleanup_free_ char *dir = xasprintf("sys/devices/%s/%s", b->bridge, address);
    _cleanup_free_ char *virtfn = xasprintf("%s/virtfn%u", b->pf_dir, index);
    _cleanup_free_ char *physfn = xasprintf("%s/physfn", dir);

    make_link(b, virtfn, dir);
    if (value(l, "gone", NULL)) /* the link of a VF that is just going */
        return;
    add_function(b, dir, l, address, "0x8086", "0x10ca");
    make_link(b, physfn, b->pf_dir);
    b->next_index = index + 1;
}

/* "vfs N ADDRESS": N functions in sequence, eight to a slot; "%" in net= is the index. */
static void add_vfs(struct builder *b, struct line *l)
{
    unsigned domain, bus, slot, function, count = (unsigned)atoi(l->words[1]);
    const char *net = value(l, "net", NULL);

    assert_int_equal(sscanf(l->words[2], "%x:%x:%x.%x", &domain, &bus, &slot, &function), 4);
    for (unsigned i = 0; i < count; i++) {
        unsigned at = slot * 8 + function + i;
        char address[32], *netkey = NULL, *kept = NULL;

        snprintf(address, sizeof(address), "%04x:%02x:%02x.%x", domain, bus + at / 256, at / 8 % 32,
                 at % 8);
        for (size_t w = 3; net && w < l->n; w++) {
            if (str_skip(l->words[w], "net=")) {
                kept = l->words[w];
                l->words[w] = netkey = xasprintf("net=%.*s%u", (int)strcspn(net, "%"), net, i);
            }
        }
        add_vf(b, l, address, i);
        for (size_t w = 3; netkey && w < l->n; w++) {
            if (l->words[w] == netkey)
                l->words[w] = kept;
        }
        free(netkey);
    }
}

static void add_line(struct builder *b, char *text)
{
    struct line l = {0};
    char *save = NULL;

    text[strcspn(text, "#")] = '\0';
    for (char *w = strtok_r(text, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
        assert_true(l.n < MAX_KEYS);
        l.words[l.n++] = w;
    }
    if (l.n == 0)
        return;
    assert_true(l.n >= 2);
    if (streq(l.words[0], "pf")) {
        add_pf(b, &l);
    } else if (streq(l.words[0], "vf")) {
        add_vf(b, &l, l.words[1], (unsigned)atoi(value(&l, "index", "0")));
    } else if (streq(l.words[0], "vfs")) {
        add_vfs(b, &l);
    } else if (streq(l.words[0], "dev")) {
        _cleanup_free_ char *dir = xasprintf("sys/devices/pci0000:00/%s", l.words[1]);
        add_function(b, dir, &l, l.words[1], "0x8086", "0x1000");
    } else {
        fail_msg("unknown word \"%s\"", l.words[0]);
    }
}

char *fake_sysfs_make(const char *description)
{
    char shm[] = "/dev/shm/sriov-sysfs-XXXXXX", tmp[] = "/tmp/sriov-sysfs-XXXXXX";
    char *root = mkdtemp(shm); /* of memory, as sysfs is */
    _cleanup_free_ char *text = xstrdup(description);
    char *save = NULL;

    if (!root)
        root = mkdtemp(tmp);
    assert_non_null(root);
    struct builder b = {.root = root};
    make_dirs(&b, "sys/bus/pci/devices/");
    make_dirs(&b, "sys/class/net/");
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        add_line(&b, line);
    free(b.pf_dir);
    return xstrdup(root);
}

char *fake_sysfs_load(const char *name)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", FIXTURES, name), *text = NULL;
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(file_read(AT_FDCWD, path, 1 << 20, &text, NULL, &e), &e);
    return fake_sysfs_make(text);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void fake_sysfs_remove(char *root)
{
    if (root)
        (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(root);
}
