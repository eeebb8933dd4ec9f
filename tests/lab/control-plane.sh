# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables shared with the sourcing script
# etcd, kube-apiserver, scheduler and controller manager on this machine's
# loopback: a fresh cluster each time. Sourced by `lab`.

control_plane_parts=(controller-manager scheduler apiserver etcd)

cert() { # NAME SUBJECT EXTENSION
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" \
        -keyout "$RUN/$1.key" -out "$RUN/$1.csr" 2>/dev/null
    openssl x509 -req -in "$RUN/$1.csr" -CA "$RUN/ca.crt" -CAkey "$RUN/ca.key" -CAcreateserial \
        -days 3650 -out "$RUN/$1.crt" -extfile <(echo "$3") 2>/dev/null
    rm "$RUN/$1.csr"
}

kubeconfig() { # NAME SERVER
    cat >"$RUN/$1.kubeconfig" <<K
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "$2", certificate-authority-data: $(base64 -w0 "$RUN/ca.crt")}}]
users: [{name: lab, user: {client-certificate-data: $(base64 -w0 "$RUN/$1.crt"), client-key-data: $(base64 -w0 "$RUN/$1.key")}}]
contexts: [{name: lab, context: {cluster: lab, user: lab}}]
current-context: lab
K
}

client() { # NAME SUBJECT SERVER
    cert "$1" "$2" extendedKeyUsage=clientAuth
    kubeconfig "$1" "$3"
}

# All identities, before anything runs: the guests take theirs from the share.
# From a guest this machine's loopback is 10.0.2.2; from a pod the API server
# is 10.96.0.1, as in any cluster.
identities() {
    local node
    openssl ecparam -genkey -name prime256v1 -noout -out "$RUN/sa.key"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=lab \
        -keyout "$RUN/ca.key" -out "$RUN/ca.crt" 2>/dev/null
    cert apiserver /CN=kube-apiserver \
        "subjectAltName=IP:127.0.0.1,IP:10.0.2.2,IP:10.96.0.1,DNS:kubernetes.default.svc"
    client admin /O=system:masters/CN=admin "https://127.0.0.1:$API_PORT"
    client driver /CN=sriov-dra "https://10.0.2.2:$API_PORT"
    for node in $NODES; do
        client "$node" "/O=system:nodes/CN=system:node:$node" "https://10.0.2.2:$API_PORT"
    done
}

control_plane_start() {
    local node
    # The API server reaches a kubelet by its node's name: all are on loopback.
    { cat /etc/hosts; for node in $NODES; do echo "127.0.0.1 $node"; done; } >"$RUN/hosts"

    spawn etcd "$KUBE" etcd --data-dir "$RUN/etcd" --unsafe-no-fsync \
        --listen-client-urls "$(etcd_url)" --advertise-client-urls "$(etcd_url)" \
        --listen-peer-urls "http://127.0.0.1:$PEER_PORT"
    apiserver_start
    scheduler_start
    controller_manager_start
    kubectl apply -f "$lab/driver-role.yaml" >/dev/null
    await 300 "the default service account" "${control_plane_parts[*]}" kubectl get serviceaccount default
}

etcd_url() { echo "http://127.0.0.1:$ETCD_PORT"; }

apiserver_start() {
    # shellcheck disable=SC2016 # $0 and $@ are the inner shell's
    spawn apiserver unshare -m sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$RUN/hosts" \
        "$KUBE" kube-apiserver --etcd-servers "$(etcd_url)" --feature-gates "$GATES" \
        --bind-address 127.0.0.1 --secure-port "$API_PORT" --advertise-address 10.0.2.2 \
        --tls-cert-file "$RUN/apiserver.crt" --tls-private-key-file "$RUN/apiserver.key" \
        --client-ca-file "$RUN/ca.crt" --authorization-mode Node,RBAC \
        --kubelet-client-certificate "$RUN/admin.crt" --kubelet-client-key "$RUN/admin.key" \
        --kubelet-preferred-address-types Hostname --service-cluster-ip-range 10.96.0.0/16 \
        --service-account-issuer https://kubernetes.default.svc \
        --service-account-key-file "$RUN/sa.key" --service-account-signing-key-file "$RUN/sa.key" \
        --audit-policy-file "$lab/audit.yaml" --audit-log-path "$RUN/log/audit.log"
    await 300 "the API server" "${control_plane_parts[*]}" kubectl get --raw /readyz
}

scheduler_start() {
    spawn scheduler "$KUBE" kube-scheduler --kubeconfig "$RUN/admin.kubeconfig" \
        --secure-port 0 --leader-elect=false --feature-gates "$SCHEDULER_GATES"
}

controller_manager_start() {
    spawn controller-manager "$KUBE" kube-controller-manager --kubeconfig "$RUN/admin.kubeconfig" \
        --secure-port 0 --leader-elect=false --feature-gates "$GATES" --root-ca-file "$RUN/ca.crt" \
        --service-account-private-key-file "$RUN/sa.key" --use-service-account-credentials
}
