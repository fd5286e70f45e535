// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMessage_is_read_alike_in_both_modes(t *testing.T) {
	binary := Message{
		Sequence: 7, Subject: "k8s.c.core.configmaps.a.b", Data: []byte(`{"metadata":{"name":"b"}}`),
		Header: map[string][]string{
			"Content-Type": {"application/json"}, "ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"s"},
			"ce-name": {"b%20c"}, "ce-type": {"io.kube-eventbridge.resource.added.v1"}, "ce-payload": {"object"},
			"ce-sampledrate": {"3"},
		},
	}
	structured := binary
	structured.Header = map[string][]string{"content-type": {"application/cloudevents+json"}}
	structured.Data = []byte(`{"specversion":"1.0","id":"1","source":"s","name":"b c","payload":"object","sampledrate":3,` +
		`"type":"io.kube-eventbridge.resource.added.v1","data":{"metadata":{"name":"b"}}}`)
	want, is := must.Get(binary.Entry())(t), must.Get(structured.Entry())(t)
	want.Headers, is.Headers = nil, nil
	assert.Equal(t, want, is)
	assert.Equal(t, 3, is.SampledRate)
	structured.Data = []byte(`{"specversion":`)
	_, err := structured.Entry()
	assert.Error(t, err, "it is no JSON")
}

func TestProgram_is_built_once_and_says_its_version(t *testing.T) {
	paths := make([]string, 3)
	var asking sync.WaitGroup
	for i := range paths {
		asking.Go(func() {
			var err error
			if paths[i], err = (Build{Version: "v0.0.1-rig", Commit: "abc"}).Program(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	require.Equal(t, paths[1], paths[0], "it was built as %q", paths)
	require.Equal(t, paths[2], paths[1], "it was built as %q", paths)
	out := must.Get(exec.Command(paths[0], "--version").CombinedOutput())(t)
	assert.Contains(t, string(out), "v0.0.1-rig", "it says %q", out)
}

func TestBuild_has_a_key_for_each_program(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, []byte("package main"), 0o600))
	seen := map[string]string{}
	add := func(what string, b Build, fresh bool) {
		t.Helper()
		key := must.Get(b.key(dir))(t)
		was, known := seen[key]
		assert.NotEqual(t, fresh, known, "%s: key %s; one like it: %q", what, key, was)
		seen[key] = what
	}
	add("a build", Build{}, true)
	add("the same", Build{}, false)
	add("a version", Build{Version: "v1"}, true)
	add("the race detector", Build{Race: true}, true)
	add("another machine", Build{OS: "plan9"}, true)
	add("a replaced file", Build{Replace: map[string]string{"main.go": "package x"}}, true)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main_test.go"), []byte("package main"), 0o600))
	add("another test", Build{}, false)
	require.NoError(t, os.WriteFile(file, []byte("package main // changed"), 0o600))
	add("a changed file", Build{}, true)
}

func TestNATSLog_reads_on_from_where_it_was(t *testing.T) {
	n := NATSForTest(t, nil)
	js := n.Connect(t)
	log := NATSLog(js, "S")
	expect := func(want string) {
		t.Helper()
		all := must.Get(log.Read(t.Context()))(t)
		got := ""
		for _, m := range all {
			got += string(m.Data) + m.Header["A"][0]
		}
		assert.Equal(t, want, got, "the log")
	}
	publish := func(data string) uint64 {
		t.Helper()
		m := &nats.Msg{Subject: "s", Data: []byte(data), Header: nats.Header{"A": {"!"}}}
		// A client that has not noticed the end of a server yet loses what it sends. The ID keeps a second try from
		// being stored twice.
		var ack *jetstream.PubAck
		Poll(t, "publish "+data, func() (_ bool, instead string) {
			var err error
			ack, err = js.PublishMsg(t.Context(), m, jetstream.WithMsgID(data))
			return err == nil, fmt.Sprint(err)
		})
		return ack.Sequence
	}
	make := func() (made jetstream.Stream) {
		t.Helper()
		// A server may still be removing what it kept of a stream of this name.
		Poll(t, "make the stream", func() (_ bool, instead string) {
			var err error
			made, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
			return err == nil, fmt.Sprint(err)
		})
		return made
	}
	expect("")
	s := make()
	expect("")
	publish("a")
	second := publish("b")
	expect("a!b!")
	publish("c")
	third := publish("d")
	require.NoError(t, s.DeleteMsg(t.Context(), second))
	require.NoError(t, s.DeleteMsg(t.Context(), third))
	expect("a!b!c!")
	n.Stop()
	soon := must.Within(t, time.Second)
	all, err := log.Read(soon)
	assert.True(t, err != nil && len(all) == 3, "without a server the log has %d messages, %v", len(all), err)
	require.NoError(t, n.Start())
	publish("e")
	expect("a!b!c!e!")
	n.Stop()
	backup := t.TempDir()
	require.NoError(t, os.CopyFS(backup, os.DirFS(n.Dir)))
	require.NoError(t, n.Start())
	publish("lost")
	expect("a!b!c!e!lost!")
	n.Stop()
	require.NoError(t, os.RemoveAll(n.Dir))
	require.NoError(t, os.CopyFS(n.Dir, os.DirFS(backup)))
	require.NoError(t, n.Start())
	publish("g")
	publish("h")
	expect("a!c!e!g!h!") // what was deleted before is not there any more
	require.NoError(t, js.DeleteStream(t.Context(), "S"))
	expect("")
	make()
	publish("f")
	expect("f!")
}

// The whole way: what the bridge publishes is judged by what etcd says.
func TestRig_runs_a_bridge_and_judges_its_log(t *testing.T) {
	plane := controlplane.ForTest(t, controlplane.Config{})
	n := NATSForTest(t, nil)
	truth := Record(t, plane, "rig", corev1.SchemeGroupVersion.WithResource("configmaps"))
	dir := t.TempDir()
	kubeconfig := must.Get(plane.Kubeconfig(dir))(t)
	at := must.Get(port.Free())(t)
	server := fmt.Sprintf("127.0.0.1:%d", at)
	config := filepath.Join(dir, "bridge.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
cluster: rig
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: %s}
pipelines:
  - name: test
    resources: [{resource: configmaps, namespaces: [default]}]
    sink: {nats: {servers: [%q]}}
`, kubeconfig, filepath.Join(dir, "data"), server, n.URL()), 0o600))
	b := StartBridge(t, server, exec.Command(ProgramForTest(t), "run", "--config", config))
	b.AwaitReady(200, "ok")
	kube := must.Get(kubernetes.NewForConfig(plane.RESTConfig()))(t)
	for i := range 10 {
		must.Get(kube.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)},
		}, metav1.CreateOptions{}))(t)
	}
	log := NATSLog(n.Connect(t), "KUBERNETES")
	var all []Message
	b.Poll("the events", func() (bool, string) {
		var err error
		all, err = log.Read(t.Context())
		return len(all) >= 12, fmt.Sprintf("%d messages, %v", len(all), err) // the snapshot has a marker at each end
	})
	b.Poll("the metrics to have them", func() (bool, string) { // they are counted when the broker's answer is read
		sum, found := b.Metric("events_published_total", `op="added"`, `reason="watch"`)
		return found && sum == 10, fmt.Sprint(sum)
	})
	b.Stops()
	truth.Judge(all, oracle.Options{Pipeline: "test"}, CoreStream("rig", "configmaps", "default"))
}
