// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
)

// sites are two clusters, the log beside the second one, and the network between.
type sites struct {
	*base
	east, west *site
	log        *rig.NATS
	network    *proxy.Proxy // what east has of the log
}

// site is a cluster, and the process that publishes it or replicates into it.
type site struct {
	name    string
	cluster *controlplane.ControlPlane
	client  *dynamic.DynamicClient
	server  string // the address of the process's HTTP server
	broker  string // how the process reaches the log
	process *program
	config  string // the file that the process has
}

// start starts the two control planes, the log, and the network.
func (st *sites) start(ctx context.Context) {
	st.screen.say("  starting etcd and kube-apiserver of two clusters, and a NATS server …")
	both := make(chan error, 2)
	for _, s := range []*site{st.east, st.west} {
		log := try.Get(st.create(s.name + "-control-plane.log"))
		go func() {
			var err error
			s.cluster, err = controlplane.Start(ctx, controlplane.Config{
				Binaries: st.binaries, DataDir: filepath.Join(st.dir, s.name), Log: log,
			})
			both <- err
		}()
	}
	try.Do(errors.Join(<-both, <-both))
	st.log = try.Get(rig.NewNATS(filepath.Join(st.dir, "log"), nil))
	st.network = try.Get(proxy.To(st.log.Address()))
	st.east.broker, st.west.broker = "nats://"+st.network.Address(), st.log.URL()
	try.Do(controlplane.WriteContexts(st.kubeconfig(), map[string]*rest.Config{
		"east": st.east.cluster.RESTConfig(), "west": st.west.cluster.RESTConfig(),
	}, "west"))
	for _, s := range []*site{st.east, st.west} {
		s.client = try.Get(dynamic.NewForConfig(s.cluster.RESTConfig()))
		s.server = fmt.Sprintf("127.0.0.1:%d", try.Get(port.Free()))
	}
}

// run starts the process of a site with a file: "run" publishes, "replicate" replicates. More is what the file has
// besides the cluster.
func (st *sites) run(s *site, command, file, more string) {
	s.config = filepath.Join(st.dir, file)
	text := fmt.Sprintf("cluster: %s\nkubernetes: {kubeconfig: %q, context: %s}\ndataDir: %q\nserver: {listen: %q}\n%s",
		s.name, st.kubeconfig(), s.name, filepath.Join(st.dir, s.name, "bridge"), s.server, more)
	try.Do(os.WriteFile(s.config, []byte(text), 0o600))
	log := try.Get(st.create(s.name + "-" + command + ".log"))
	st.screen.say("  %s: %s", s.name, st.screen.bold("kube-eventbridge "+command+" --config "+file))
	args := []string{command, "--config", s.config}
	s.process = try.Get(startProgram(s.name+"'s kube-eventbridge", st.program, args, func(string) {}, log))
}

// stop ends the site's process.
func (s *site) stop() error {
	defer func() { s.process = nil }()
	return s.process.stop()
}

// publishes is the part of a file by which a site publishes its namespace.
func (s *site) publishes() string {
	return fmt.Sprintf("pipelines:\n  - name: shop\n    resources: %s\n    encoding: {secrets: {values: true}}\n"+
		"    sink: {nats: {servers: [%q]}}\n", selected, s.broker)
}

// replicates is the part of a file by which a site gets what another one publishes.
func (s *site) replicates(from *site, existing string) string {
	return fmt.Sprintf("replicas:\n  - name: shop\n    from: {cluster: %s, pipeline: shop, "+
		"nats: {servers: [%q], stream: KUBERNETES}}\n    resources: %s\n    existing: %s\n    conflicts: force\n",
		from.name, s.broker, selected, existing)
}

// selected are the entries of pipelines and of replicas.
const selected = "[{resource: configmaps, namespaces: [shop]}, {resource: secrets, namespaces: [shop]}, " +
	"{resource: deployments.apps, namespaces: [shop]}]"

// kubeconfig has the contexts east and west.
func (st *sites) kubeconfig() string { return filepath.Join(st.dir, "kubeconfig") }

// invite says how to look at what keeps running.
func (st *sites) invite() {
	st.screen.say("\n%s\n  export KUBECONFIG=%s\n  %s replicate status --server %s\n  http://%s/\n  %s\n^C ends it, or "+
		"from elsewhere: kill -INT %d", st.screen.bold("Everything keeps running. To look around:"), st.kubeconfig(),
		st.program,
		st.west.server, st.east.server, st.dir, os.Getpid())
}

// close ends all processes that run.
func (st *sites) close() error {
	err := errors.Join(st.east.stop(), st.west.stop())
	if st.network != nil {
		err = errors.Join(err, st.network.Close())
	}
	if st.log != nil {
		st.log.Stop()
	}
	for _, s := range []*site{st.east, st.west} {
		if s.cluster != nil {
			err = errors.Join(err, s.cluster.Close())
		}
	}
	return err
}
