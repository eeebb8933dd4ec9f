/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/apiconf.h"

#include "base/file.h"
#include "base/str.h"
#include "base/yaml.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>

#define FILE_MAX (1024 * 1024)

/* ---- the parts */

static void part_done(struct apiconf_part *p)
{
    if (p->text)
        explicit_bzero(p->text, strlen(p->text));
    free(p->text);
    free(p->file);
}

void apiconf_done(struct apiconf *c)
{
    free(c->server);
    part_done(&c->ca);
    part_done(&c->cert);
    part_done(&c->key);
    part_done(&c->token);
    *c = (struct apiconf){0};
}

static int part_read(const char *file, char **ret, struct err *e)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    int r = file_read(AT_FDCWD, file, FILE_MAX, &text, &len, e);

    if (r < 0)
        return r;
    if (strlen(text) != len || !*str_chomp(text))
        return err_set(e, ERR_USER, -EINVAL, "%s: empty, or not a text", file);
    *ret = TAKE_PTR(text);
    return 0;
}

/* Only what may stand in a header: a line end would let a token file add headers. */
static int check_token(const char *token, struct err *e)
{
    for (const char *s = token; *s; s++)
        if (*s <= ' ' || *s > '~')
            return err_set(e, ERR_USER, -EINVAL, "the token has a character that none can have");
    return 0;
}

static bool part_refresh(struct apiconf_part *p, bool token)
{
    _cleanup_free_ char *text = NULL;

    if (!p->file || part_read(p->file, &text, NULL) < 0 || streq_null(text, p->text))
        return false;
    if (token && check_token(text, NULL) < 0)
        return false;
    explicit_bzero(p->text, strlen(p->text));
    free(p->text);
    p->text = TAKE_PTR(text);
    return true;
}

bool apiconf_refresh(struct apiconf *c)
{
    bool changed = part_refresh(&c->ca, false);

    changed |= part_refresh(&c->cert, false);
    changed |= part_refresh(&c->key, false);
    changed |= part_refresh(&c->token, true);
    return changed;
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* The text that `in` encodes, or NULL if it isn't base64 of a text. */
static char *base64_text(const char *in)
{
    _cleanup_(strbuf_done) struct strbuf b = {0};
    unsigned bits = 0, have = 0, digits = 0;

    for (; *in && *in != '='; in++) {
        int d = base64_digit(*in);

        if (d < 0)
            return NULL;
        digits++;
        bits = bits << 6 | (unsigned)d;
        have += 6;
        if (have < 8)
            continue;
        have -= 8;
        strbuf_putc(&b, (char)(bits >> have & 0xff));
    }
    size_t padding = strspn(in, "=");
    if (in[padding] || padding > 2 || (digits + padding) % 4 || !b.len || strlen(b.s) != b.len)
        return NULL;
    return strbuf_take(&b);
}

/* ---- the server's address */

static bool is_loopback(const char *host)
{
    return streq(host, "localhost") || streq(host, "127.0.0.1") || streq(host, "[::1]");
}

static int check_url(CURLU *u, const char *text, struct err *e)
{
    static const CURLUPart unwanted[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY,
                                         CURLUPART_FRAGMENT};
    char *scheme = NULL, *host = NULL;
    int r = 0;

    /* the text isn't shown where it may hold a password */
    if (curl_url_set(u, CURLUPART_URL, text, 0) != CURLUE_OK)
        return err_set(e, ERR_USER, -EINVAL, "not the URL of a server");
    for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++) {
        char *part = NULL;

        if (curl_url_get(u, unwanted[i], &part, 0) == CURLUE_OK) {
            curl_free(part);
            return err_set(e, ERR_USER, -EINVAL, "only scheme, host, port and path are allowed");
        }
    }
    (void)curl_url_get(u, CURLUPART_SCHEME, &scheme, 0);
    (void)curl_url_get(u, CURLUPART_HOST, &host, 0);
    if (!scheme || !host)
        r = err_set(e, ERR_USER, -EINVAL, "not the URL of a server");
    else if (!streq(scheme, "https") && !(streq(scheme, "http") && is_loopback(host)))
        r = err_set(e, ERR_USER, -EINVAL, "%s: must be https (http on the loopback only)", text);
    curl_free(scheme);
    curl_free(host);
    return r;
}

static int set_server(struct apiconf *c, const char *text, struct err *e)
{
    CURLU *u = curl_url();
    int r = check_url(u, text, e);

    curl_url_cleanup(u);
    if (r < 0)
        return r;
    c->server = xstrdup(text);
    for (size_t n = strlen(c->server); n && c->server[n - 1] == '/'; n--)
        c->server[n - 1] = '\0';
    return 0;
}

/* ---- kubeconfig */

/* An object in the file and the way to it. Points into itself: not to be copied. */
struct place {
    struct jpath list, item, body;
    const json_t *o;
};

/* The entry `name` of the list `list_key`, whose content is under `body_key`. */
static int find(const json_t *root, const char *list_key, const char *body_key, const char *name,
                struct place *at, struct err *e)
{
    json_t *list = NULL, *entry, *body = NULL;
    size_t i;

    *at = (struct place){.list = {.key = list_key},
                         .item = {.up = &at->list},
                         .body = {.up = &at->item, .key = body_key}};
    int r = json_get_array(root, NULL, list_key, &list, e);
    if (r < 0)
        return r;
    json_array_foreach (list, i, entry) {
        const char *entry_name = json_str_at(entry, "name");

        at->item.index = i;
        if (!entry_name || !streq(entry_name, name))
            continue;
        r = json_get_object(entry, &at->item, body_key, &body, e);
        if (r == 0)
            return jpath_err(&at->body, e, "is missing");
        at->o = body;
        return r < 0 ? r : 0;
    }
    return jpath_err(&at->list, e, "has no entry named \"%s\"", name);
}

/* An optional text of the place; empty counts as absent, as it does for kubectl. */
static int text_of(const struct place *at, const char *key, const char **ret, struct err *e)
{
    const char *s = NULL;
    int r = json_get_str(at->o, &at->body, key, &s, e);

    if (r < 0)
        return r;
    *ret = s && *s ? s : NULL;
    return 0;
}

static int need_text(const struct place *at, const char *key, const char **ret, struct err *e)
{
    struct jpath p = {.up = &at->body, .key = key};
    int r = text_of(at, key, ret, e);

    if (r == 0 && !*ret)
        return jpath_err(&p, e, "is missing");
    return r;
}

static int refuse(const struct place *at, const char *const *keys, struct err *e)
{
    for (; *keys; keys++) {
        const json_t *v = json_object_get(at->o, *keys);
        struct jpath p = {.up = &at->body, .key = *keys};

        if (v && !json_is_null(v) && !json_is_false(v))
            return jpath_err(&p, e, "isn't supported");
    }
    return 0;
}

/* A credential given as base64 data or as a file; data wins, as it does for kubectl. */
static int part_of(const struct place *at, const char *data_key, const char *file_key,
                   const char *dir, struct apiconf_part *ret, struct err *e)
{
    struct jpath p_data = {.up = &at->body, .key = data_key};
    struct jpath p_file = {.up = &at->body, .key = file_key};
    const char *data = NULL, *file = NULL;
    int r = data_key ? text_of(at, data_key, &data, e) : 0;

    if (r == 0)
        r = text_of(at, file_key, &file, e);
    if (r < 0)
        return r;
    if (data) {
        ret->text = base64_text(data);
        return ret->text ? 0 : jpath_err(&p_data, e, "isn't base64 of a text");
    }
    if (!file)
        return 0;
    ret->file = *file == '/' ? xstrdup(file) : xasprintf("%s%s", dir, file);
    r = part_read(ret->file, &ret->text, e);
    if (r < 0) {
        _cleanup_free_ char *where = jpath_text(&p_file);

        return err_prefix(e, r, "%s", where);
    }
    return 0;
}

static int read_cluster(const struct place *at, const char *dir, struct apiconf *c, struct err *e)
{
    static const char *const unsupported[] = {"insecure-skip-tls-verify", "proxy-url",
                                              "tls-server-name", NULL};
    struct jpath p = {.up = &at->body, .key = "server"};
    const char *server = NULL;
    int r = refuse(at, unsupported, e);

    if (r == 0)
        r = need_text(at, "server", &server, e);
    if (r < 0)
        return r;
    r = set_server(c, server, e);
    if (r < 0) {
        _cleanup_free_ char *where = jpath_text(&p);

        return err_prefix(e, r, "%s", where);
    }
    return part_of(at, "certificate-authority-data", "certificate-authority", dir, &c->ca, e);
}

static int read_user(const struct place *at, const char *dir, struct apiconf *c, struct err *e)
{
    static const char *const unsupported[] = {"exec", "auth-provider", "username",  "password",
                                              "as",   "as-uid",        "as-groups", "as-user-extra",
                                              NULL};
    struct jpath p = {.up = &at->body, .key = "token"};
    const char *token = NULL;
    int r = refuse(at, unsupported, e);

    if (r == 0)
        r = part_of(at, "client-certificate-data", "client-certificate", dir, &c->cert, e);
    if (r == 0)
        r = part_of(at, "client-key-data", "client-key", dir, &c->key, e);
    if (r == 0)
        r = part_of(at, NULL, "tokenFile", dir, &c->token, e);
    if (r == 0)
        r = text_of(at, "token", &token, e);
    if (r < 0)
        return r;
    if (!c->cert.text != !c->key.text)
        return jpath_err(&at->body, e, "has a client certificate without a key or the reverse");
    if (token && !c->token.text)
        c->token.text = xstrdup(token);
    if (c->token.text && check_token(c->token.text, e) < 0)
        return jpath_err(&p, e, "has a character that no token has");
    return 0;
}

static int read_kubeconfig(const json_t *root, const char *dir, struct apiconf *c, struct err *e)
{
    const char *current = NULL, *cluster_name = NULL, *user_name = NULL;
    struct jpath p = {.key = "current-context"};
    struct place context, cluster, user;

    if (!json_is_object(root))
        return jpath_err(NULL, e, "must be an object");
    int r = json_get_str(root, NULL, "current-context", &current, e);
    if (r >= 0 && (!current || !*current))
        r = jpath_err(&p, e, "is missing");
    if (r >= 0)
        r = find(root, "contexts", "context", current, &context, e);
    if (r >= 0)
        r = need_text(&context, "cluster", &cluster_name, e);
    if (r >= 0)
        r = find(root, "clusters", "cluster", cluster_name, &cluster, e);
    if (r >= 0)
        r = read_cluster(&cluster, dir, c, e);
    if (r >= 0)
        r = text_of(&context, "user", &user_name, e);
    if (r >= 0 && user_name)
        r = find(root, "users", "user", user_name, &user, e);
    if (r >= 0 && user_name)
        r = read_user(&user, dir, c, e);
    return r < 0 ? r : 0;
}

int apiconf_kubeconfig(const char *path, struct apiconf *ret, struct err *e)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *dir = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup("");
    _cleanup_free_ char *text = NULL;
    json_auto_t *root = NULL;
    struct apiconf c = {0};
    size_t len;
    int r = file_read(AT_FDCWD, path, FILE_MAX, &text, &len, e);

    if (r < 0)
        return err_prefix(e, r, "kubeconfig");
    r = yaml_parse(text, len, &root, e);
    explicit_bzero(text, len);
    if (r == 0)
        r = read_kubeconfig(root, dir, &c, e);
    if (r < 0) {
        apiconf_done(&c);
        return err_prefix(e, r, "kubeconfig: %s", path);
    }
    *ret = c;
    return 0;
}

/* ---- as a pod */

static int pod_part(const char *dir, const char *name, struct apiconf_part *ret, struct err *e)
{
    ret->file = xasprintf("%s/%s", dir, name);
    return part_read(ret->file, &ret->text, e);
}

int apiconf_pod(const char *dir, struct apiconf *ret, struct err *e)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    struct apiconf c = {0};

    if (!host || !*host || !port || !*port)
        return err_set(e, ERR_USER, -EINVAL,
                       "no kubeconfig given, and this is no pod: KUBERNETES_SERVICE_HOST and "
                       "KUBERNETES_SERVICE_PORT aren't set");
    bool ipv6 = strchr(host, ':') && *host != '[';
    _cleanup_free_ char *url =
        xasprintf("https://%s%s%s:%s", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
    int r = set_server(&c, url, e);
    if (r < 0)
        err_prefix(e, r, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT");
    if (r == 0)
        r = pod_part(dir, "ca.crt", &c.ca, e);
    if (r == 0)
        r = pod_part(dir, "token", &c.token, e);
    if (r == 0 && (r = check_token(c.token.text, e)) < 0)
        err_prefix(e, r, "%s", c.token.file);
    if (r < 0) {
        apiconf_done(&c);
        return r;
    }
    *ret = c;
    return 0;
}
