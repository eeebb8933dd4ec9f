// SPDX-License-Identifier: Apache-2.0

// nri_runtime is the runtime's side of NRI by NRI's own code: the package that containerd and CRI-O
// use. It serves the socket given, takes commands as JSON lines on stdin, carries them out one by
// one and answers each with a JSON line. "synchronized" lines come by themselves, whenever a plugin
// has been taken in.
//
// With -old it speaks as runtimes with NRI before 0.12 do: pod events by StateChange, on a ttrpc
// client of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
)

type command struct {
	Op, ID, Name, Netns string
	Pods, Containers    int // what a plugin is synchronized with
	Padding             int // bytes of a label of each
}

type answer struct {
	Event string   `json:"event,omitempty"`
	Error string   `json:"error,omitempty"`
	Env   []string `json:"env,omitempty"`
	Ms    int64    `json:"ms"`
}

var (
	outLock    sync.Mutex
	stateLock  sync.Mutex
	pods       []*api.PodSandbox
	containers []*api.Container
)

func say(a answer) {
	outLock.Lock()
	defer outLock.Unlock()
	line, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func setState(c command) {
	stateLock.Lock()
	defer stateLock.Unlock()
	pods, containers = nil, nil
	labels := map[string]string{"padding": strings.Repeat("x", c.Padding)}
	for i := range c.Pods {
		pods = append(pods, &api.PodSandbox{Id: fmt.Sprintf("pod%d", i), Name: "web", Labels: labels})
	}
	for i := range c.Containers {
		containers = append(containers, &api.Container{Id: fmt.Sprintf("ctr%d", i), PodSandboxId: "pod0",
			State: api.ContainerState_CONTAINER_RUNNING, Labels: labels})
	}
}

func (c command) pod() *api.PodSandbox {
	p := &api.PodSandbox{Id: c.ID, Name: c.Name, Uid: "uid-" + c.ID, Namespace: "default", Pid: 4711,
		Labels: map[string]string{"app": "x"}, Linux: &api.LinuxPodSandbox{
			Namespaces: []*api.LinuxNamespace{{Type: "ipc"}}}}
	if c.Netns != "" {
		p.Linux.Namespaces = append(p.Linux.Namespaces, &api.LinuxNamespace{Type: "network", Path: c.Netns})
	}
	return p
}

func (c command) container() *api.Container {
	return &api.Container{Id: "ctr-" + c.ID, PodSandboxId: c.ID, Name: "main",
		Env: []string{"PATH=/bin"}, Linux: &api.LinuxContainer{}}
}

type runtime interface {
	do(command) ([]string, error)
}

// current is the adaptation of NRI 0.12.
type current struct{ a *adaptation.Adaptation }

func newCurrent(socket string) runtime {
	start := true
	sync := func(ctx context.Context, plugin adaptation.SyncCB) error {
		stateLock.Lock()
		p, c, quiet := pods, containers, start
		start = false
		stateLock.Unlock()
		if quiet { // Start's own call, for plugins that the runtime launches: none
			_, err := plugin(ctx, p, c)
			return err
		}
		began := time.Now()
		_, err := plugin(ctx, p, c)
		a := answer{Event: "synchronized", Ms: time.Since(began).Milliseconds()}
		if err != nil {
			a.Error = err.Error()
		}
		say(a)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		return nil, nil
	}
	a, err := adaptation.New("testing", "v1.2.3", sync, update, adaptation.WithSocketPath(socket),
		adaptation.WithPluginPath("/nonexistent"), adaptation.WithPluginConfigPath("/nonexistent"))
	if err == nil {
		err = a.Start()
	}
	if err != nil {
		panic(err)
	}
	return &current{a}
}

func (r *current) do(c command) ([]string, error) {
	ctx := context.Background()
	defer r.a.BlockPluginSync().Unblock() // as containerd does around each pod operation
	switch c.Op {
	case "run":
		return nil, r.a.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: c.pod()})
	case "stop":
		return nil, r.a.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: c.pod()})
	case "remove":
		return nil, r.a.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: c.pod()})
	case "create":
		rpl, err := r.a.CreateContainer(ctx, &api.CreateContainerRequest{Pod: c.pod(), Container: c.container()})
		if err != nil {
			return nil, err
		}
		return env(rpl), nil
	}
	return nil, fmt.Errorf("no operation %q", c.Op)
}

func env(rpl *api.CreateContainerResponse) (list []string) {
	for _, e := range rpl.GetAdjust().GetEnv() {
		list = append(list, e.Key+"="+e.Value)
	}
	return list
}

// old is what a runtime with NRI before 0.12 sends.
type old struct {
	plugin api.PluginService
	ready  chan struct{}
}

func (r *old) RegisterPlugin(context.Context, *api.RegisterPluginRequest) (*api.Empty, error) {
	go func() { // before the plugin has our answer, as in the real one
		ctx := context.Background()
		_, err := r.plugin.Configure(ctx, &api.ConfigureRequest{RuntimeName: "old", RuntimeVersion: "v1.7.0"})
		if err == nil {
			_, err = r.plugin.Synchronize(ctx, &api.SynchronizeRequest{})
		}
		if err != nil {
			panic(err)
		}
		close(r.ready)
		say(answer{Event: "synchronized"})
	}()
	return &api.Empty{}, nil
}

func (r *old) UpdateContainers(context.Context, *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	return nil, nil
}

func newOld(socket string) runtime {
	l, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	r := &old{ready: make(chan struct{})}
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		mux := multiplex.Multiplex(conn, multiplex.WithBlockedRead())
		pconn, err := mux.Open(multiplex.PluginServiceConn)
		if err != nil {
			panic(err)
		}
		r.plugin = api.NewPluginClient(ttrpc.NewClient(pconn))
		rl, err := mux.Listen(multiplex.RuntimeServiceConn)
		if err != nil {
			panic(err)
		}
		server, err := ttrpc.NewServer()
		if err != nil {
			panic(err)
		}
		api.RegisterRuntimeService(server, r)
		go server.Serve(context.Background(), rl)
		mux.Unblock()
	}()
	return r
}

func (r *old) do(c command) ([]string, error) {
	<-r.ready
	ctx := context.Background()
	events := map[string]api.Event{"run": api.Event_RUN_POD_SANDBOX, "stop": api.Event_STOP_POD_SANDBOX,
		"remove": api.Event_REMOVE_POD_SANDBOX, "start": api.Event_START_CONTAINER}
	if event, ok := events[c.Op]; ok {
		_, err := r.plugin.StateChange(ctx, &api.StateChangeEvent{Event: event, Pod: c.pod()})
		return nil, err
	}
	if c.Op == "update" { // nobody asked for it
		_, err := r.plugin.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: c.pod()})
		return nil, err
	}
	rpl, err := r.plugin.CreateContainer(ctx, &api.CreateContainerRequest{Pod: c.pod(), Container: c.container()})
	return env(rpl), err
}

func main() {
	isOld := flag.Bool("old", false, "speak as NRI before 0.12")
	timeout := flag.Duration("request-timeout", 2*time.Second, "what a plugin has for a request")
	flag.Parse()
	adaptation.SetPluginRequestTimeout(*timeout)
	start := newCurrent
	if *isOld {
		start = newOld
	}
	r := start(flag.Arg(0))
	say(answer{Event: "listening"})
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var c command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			panic(err)
		}
		var a answer
		var err error
		began := time.Now()
		switch c.Op {
		case "state":
			setState(c)
		default:
			a.Env, err = r.do(c)
		}
		a.Ms = time.Since(began).Milliseconds()
		if err != nil {
			a.Error = err.Error()
		}
		a.Event = c.Op
		say(a)
	}
}
