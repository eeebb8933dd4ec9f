/* SPDX-License-Identifier: Apache-2.0 */
/* The part of sysfs that the project reads, as a folder of plain files. */
#include "tests/unit/fakekernel/state.h"

#include "tests/unit/sriov/fake_sysfs.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/stat.h>

/* Where a function is below /sys/devices. */
static char *function_dir(const struct fk *k, const char *address)
{
    return xasprintf("%s/sys/devices/pci0000:00/0000:00:01.0/%s", k->root, address);
}

static void describe(const struct fk *k, struct strbuf *b)
{
    for (unsigned p = 0; p < k->n_pfs; p++) {
        const struct fk_pf *pf = &k->pfs[p];

        strbuf_printf(b, "pf %s driver=igb net=%s total=%d num=%u speed=%u\n", pf->address,
                      k->devs[pf->dev].name, FK_VFS, pf->n_vfs, pf->speed);
        for (unsigned v = 0; v < FK_VFS; v++)
            if (pf->vfs[v].there)
                strbuf_printf(b, "vf %s index=%u driver=igbvf net=-\n", pf->vfs[v].address, v);
    }
}

void sysfs_make(struct fk *k)
{
    _cleanup_(strbuf_done) struct strbuf b = {0};

    describe(k, &b);
    _cleanup_free_ char *root = fake_sysfs_make(b.s);
    assert_true(strlen(root) < sizeof(k->root));
    strcpy(k->root, root);
    _cleanup_free_ char *run = xasprintf("%s/netns", root);
    assert_int_equal(mkdir(run, 0755), 0);
}

void sysfs_remove(struct fk *k)
{
    fake_sysfs_remove(xstrdup(k->root));
}

void sysfs_show_dev(const struct fk *k, const struct fk_dev *d, const char *name, bool there)
{
    if (d->kind != FK_VF)
        return;
    _cleanup_free_ char *dir = function_dir(k, k->pfs[d->pf].vfs[d->vf].address);
    _cleanup_free_ char *path = xasprintf("%s/net/%s", dir, name);
    int r = there ? mkdir(path, 0755) : rmdir(path);

    assert_true(r == 0 || errno == (there ? EEXIST : ENOENT));
}

void sysfs_show_up(const struct fk *k, const struct fk_dev *pf)
{
    static const char *const attributes[] = {"flags", "carrier", "speed"};
    _cleanup_free_ char *dir = function_dir(k, k->pfs[pf->pf].address);

    for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
        _cleanup_free_ char *path = xasprintf("%s/net/%s/%s", dir, pf->name, attributes[i]);
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        if (i == 0)
            fprintf(f, "0x%x\n", 0x1002 | (pf->up ? IFF_UP : 0));
        else if (i == 1)
            fprintf(f, "%d\n", pf->up);
        else
            fprintf(f, "%d\n", pf->up ? (int)k->pfs[pf->pf].speed : -1);
        assert_int_equal(fclose(f), 0);
    }
}

/* The links by which a VF is found; its folder stays, as nobody sees it without them. */
void sysfs_show_vf(const struct fk *k, unsigned pf, unsigned vf, bool there)
{
    const struct fk_vf *v = &k->pfs[pf].vfs[vf];
    _cleanup_free_ char *dir = function_dir(k, k->pfs[pf].address);
    _cleanup_free_ char *link = xasprintf("%s/virtfn%u", dir, vf);
    _cleanup_free_ char *bus = xasprintf("%s/sys/bus/pci/devices/%s", k->root, v->address);
    _cleanup_free_ char *to = xasprintf("../%s", v->address);
    _cleanup_free_ char *from_bus =
        xasprintf("../../../devices/pci0000:00/0000:00:01.0/%s", v->address);

    if (there) {
        assert_true(symlink(to, link) == 0 || errno == EEXIST);
        assert_true(symlink(from_bus, bus) == 0 || errno == EEXIST);
    } else {
        assert_true(unlink(link) == 0 || errno == ENOENT);
        assert_true(unlink(bus) == 0 || errno == ENOENT);
    }
}
