/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/cdi.h"

#include "base/file.h"

#include <errno.h>

/* Lowest with device names that start with a digit, as claim uids may. */
#define CDI_VERSION "0.5.0"

static json_t *hooks(const struct cdi_hook *hook)
{
    json_t *args = json_array(), *h = json_object(), *list = json_array();

    for (size_t i = 0; hook->args[i]; i++)
        json_array_append_new(args, json_string(hook->args[i]));
    json_set_str(h, "hookName", "createRuntime");
    json_set_str(h, "path", hook->path);
    json_object_set_new(h, "args", args);
    if (hook->timeout_s)
        json_object_set_new(h, "timeout", json_integer(hook->timeout_s));
    json_array_append_new(list, h);
    return json_pack("{s:o}", "hooks", list);
}

static json_t *edits(const struct cdi_device *d)
{
    json_t *o = json_object();

    if (d->env.n) {
        json_t *list = json_array();

        vec_foreach (env, &d->env)
            json_array_append_new(list, json_sprintf("%s=%s", env->name, env->value));
        json_object_set_new(o, "env", list);
    }
    if (d->nodes.n) {
        json_t *list = json_array();

        /* without "permissions" a runtime would allow mknod(2) too */
        vec_foreach (node, &d->nodes)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s}", "path", node->path, "permissions", "rw"));
        json_object_set_new(o, "deviceNodes", list);
    }
    return o;
}

json_t *cdi_document(const char *kind, const struct cdi_hook *hook,
                     const struct cdi_device *devices, size_t n)
{
    json_t *list = json_array(), *doc;

    for (size_t i = 0; i < n; i++) {
        json_t *o = json_object();

        json_set_str(o, "name", devices[i].name);
        json_object_set_new(o, "containerEdits", edits(&devices[i]));
        json_array_append_new(list, o);
    }
    doc = json_pack("{s:s, s:s, s:o}", "cdiVersion", CDI_VERSION, "kind", kind, "devices", list);
    /* Of the whole file, which a runtime applies once for all of its devices. */
    if (hook)
        json_object_set_new(doc, "containerEdits", hooks(hook));
    return doc;
}

char *cdi_id(const char *kind, const char *name)
{
    return xasprintf("%s=%s", kind, name);
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* `n` characters, letters and digits at both ends, those of `also` between them. */
static bool is_name(const char *s, size_t n, const char *also, size_t max)
{
    if (!n || n > max || !is_alnum(s[0]) || !is_alnum(s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(s[i]) && !strchr(also, s[i]))
            return false;
    return true;
}

/*
 * "<vendor>-<class>_<claim uid>.json". All parts are checked, since they become a path: the vendor
 * and class by CDI's rules, the uid, which is opaque, against a list of harmless characters.
 */
static int file_name(const char *kind, const char *claim_uid, char **ret, struct err *e)
{
    const char *slash = strchr(kind, '/');
    size_t vendor = slash ? (size_t)(slash - kind) : 0;

    if (!slash || (kind[0] >= '0' && kind[0] <= '9') || !is_name(kind, vendor, "-_.", 63) ||
        !is_name(slash + 1, strlen(slash + 1), "-_", 63))
        return err_set(e, ERR_BUG, -EINVAL, "CDI kind \"%s\" isn't vendor/class", kind);
    if (!is_name(claim_uid, strlen(claim_uid), "-", 63))
        return err_set(e, ERR_USER, -EINVAL, "\"%s\" can't be a claim's uid", claim_uid);
    *ret = xasprintf("%.*s-%s_%s.json", (int)vendor, kind, slash + 1, claim_uid);
    return 0;
}

/* What a runtime would refuse, and with it every device in the file. */
static int check_devices(const json_t *doc, struct err *e)
{
    size_t i;
    json_t *d;

    if (!json_array_size(json_object_get(doc, "devices")))
        return err_set(e, ERR_BUG, -EINVAL, "a CDI file without devices");
    json_array_foreach (json_object_get(doc, "devices"), i, d) {
        const char *name = json_str_at(d, "name");

        if (!name || !is_name(name, strlen(name), "-_.:", 253))
            return err_set(e, ERR_BUG, -EINVAL, "\"%s\" can't be the name of a CDI device",
                           name ? name : "");
        if (!json_object_size(json_object_get(d, "containerEdits")))
            return err_set(e, ERR_BUG, -EINVAL, "CDI device %s changes nothing", name);
    }
    return 0;
}

int cdi_write(int dirfd, const char *kind, const char *claim_uid, const json_t *doc, struct err *e)
{
    _cleanup_free_ char *name = NULL;
    int r = file_name(kind, claim_uid, &name, e);

    if (r == 0)
        r = check_devices(doc, e);
    if (r < 0)
        return r;
    _cleanup_free_ char *text = json_text(doc);
    r = file_write_atomic(dirfd, name, text, strlen(text), 0644, false, e);
    return r < 0 ? err_prefix(e, r, "CDI file") : 0;
}

int cdi_remove(int dirfd, const char *kind, const char *claim_uid, struct err *e)
{
    _cleanup_free_ char *name = NULL;
    int r = file_name(kind, claim_uid, &name, e);

    if (r < 0)
        return r;
    r = file_remove(dirfd, name, false, e);
    return r < 0 ? err_prefix(e, r, "CDI file") : 0;
}

void cdi_device_done(struct cdi_device *d)
{
    free(d->name);
    vec_foreach (env, &d->env) {
        free(env->name);
        free(env->value);
    }
    free(d->env.v);
    vec_foreach (node, &d->nodes)
        free(node->path);
    free(d->nodes.v);
    *d = (struct cdi_device){0};
}
