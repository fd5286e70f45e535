// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mount is a directory with a file, as the kubelet mounts a ConfigMap.
type mount struct {
	dir string
	n   int
}

// write has the file be another one, by the symbolic link that the kubelet exchanges.
func (m *mount) write(t *testing.T, text string) {
	t.Helper()
	m.n++
	data := fmt.Sprintf("..%d", m.n)
	must(t, os.Mkdir(filepath.Join(m.dir, data), 0o700))
	must(t, os.WriteFile(filepath.Join(m.dir, data, "bridge.yaml"), []byte(text), 0o600))
	next := filepath.Join(m.dir, "..data_tmp")
	must(t, os.Symlink(data, next))
	must(t, os.Rename(next, filepath.Join(m.dir, "..data")))
	if m.n == 1 {
		must(t, os.Symlink(filepath.Join("..data", "bridge.yaml"), m.file()))
	} else {
		must(t, os.RemoveAll(filepath.Join(m.dir, fmt.Sprintf("..%d", m.n-1))))
	}
}

func (m *mount) file() string { return filepath.Join(m.dir, "bridge.yaml") }

// reloaded is a rig whose file is mounted, and is rewritten while the bridge runs.
type reloaded struct {
	*rig
	mount *mount
	head  string
}

func newReloaded(t *testing.T) *reloaded {
	t.Helper()
	r := newRig(t, "[]")
	kubeconfig, err := r.api.Kubeconfig(r.dir)
	must(t, err)
	m := &mount{dir: t.TempDir()}
	r.config = m.file()
	return &reloaded{r, m, fmt.Sprintf("cluster: e2e\nkubernetes: {kubeconfig: %q}\ndataDir: %q\nserver: {listen: %s}\npipelines:\n", kubeconfig, filepath.Join(r.dir, "data"), r.server)}
}

// pipeline is one of a file, with a stream of its own at the broker unless that is the usual one.
func (r *reloaded) pipeline(name, stream, resources string) string {
	subject := "k8s.{group}.{resource}.{namespace}.{name}"
	if stream != "KUBERNETES" {
		subject = strings.ToLower(stream) + ".{group}.{resource}.{namespace}.{name}"
	}
	return fmt.Sprintf("  - name: %s\n    resources: %s\n    sink: {nats: {servers: [%q], stream: %s, subject: %q}}\n", name, resources, r.broker.url(), stream, subject)
}

// load rewrites the file, and waits until the bridge goes by it, or has refused it.
func (r *reloaded) load(result, text string) {
	r.t.Helper()
	before := r.count(result)
	r.mount.write(r.t, text)
	r.poll("the configuration to be "+result, func() (bool, string) {
		n := r.count(result)
		return n > before, fmt.Sprintf("%d of them were before, and are %d", before, n)
	})
}

// count returns how many reloads came to a result.
func (r *reloaded) count(result string) (n int) {
	for line := range strings.Lines(r.metrics()) {
		if rest, ok := strings.CutPrefix(line, fmt.Sprintf("kube_eventbridge_config_reloads_total{result=%q} ", result)); ok {
			_, err := fmt.Sscan(rest, &n)
			must(r.t, err)
		}
	}
	return n
}

// watched returns how many watches of ConfigMaps the API server has ended so far.
func (r *reloaded) watched() (n int) {
	r.t.Helper()
	raw, err := r.kube.RESTClient().Get().AbsPath("/metrics").DoRaw(r.t.Context())
	must(r.t, err)
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `resource="configmaps"`) && strings.Contains(line, `verb="WATCH"`) {
			var count int
			_, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &count)
			must(r.t, err)
			n += count
		}
	}
	return n
}

// busy changes ConfigMaps and Secrets of a namespace until it is stopped, and knows all versions of each object.
type busy struct {
	t       *testing.T
	stop    chan struct{}
	changes sync.WaitGroup
	mu      sync.Mutex
	// versions are those of each object, by kind/name, oldest first.
	versions map[string][]string
	// since is from which version on all of a kind has to be in a log.
	since map[string]int
}

// all says that a log has to have all of a kind from now on.
func (b *busy) all(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, versions := range b.versions {
		var last int
		_, err := fmt.Sscan(versions[len(versions)-1], &last)
		must(b.t, err)
		b.since[kind] = max(b.since[kind], last+1)
	}
}

func (b *busy) note(key, version string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.versions[key] = append(b.versions[key], version)
}

// keepBusy makes a namespace in which ConfigMaps and Secrets are made and changed all the time.
func (r *reloaded) keepBusy() *busy {
	const ns = "busy"
	r.namespace(ns)
	b := &busy{t: r.t, stop: make(chan struct{}), versions: map[string][]string{}, since: map[string]int{}}
	for _, change := range []func(int){
		func(i int) {
			name := fmt.Sprint("c", i/20)
			if i%20 == 0 {
				made, err := r.kube.CoreV1().ConfigMaps(ns).Create(r.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				must(r.t, err)
				b.note("ConfigMap/"+name, made.ResourceVersion)
				return
			}
			made, err := r.kube.CoreV1().ConfigMaps(ns).Patch(r.t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"data":{"round":"%d"}}`, i), metav1.PatchOptions{})
			must(r.t, err)
			b.note("ConfigMap/"+name, made.ResourceVersion)
		},
		func(i int) {
			name := fmt.Sprint("s", i/20)
			if i%20 == 0 {
				made, err := r.kube.CoreV1().Secrets(ns).Create(r.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				must(r.t, err)
				b.note("Secret/"+name, made.ResourceVersion)
				return
			}
			made, err := r.kube.CoreV1().Secrets(ns).Patch(r.t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, i), metav1.PatchOptions{})
			must(r.t, err)
			b.note("Secret/"+name, made.ResourceVersion)
		},
	} {
		b.changes.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-tick.C:
					change(i)
				case <-b.stop:
					return
				}
			}
		})
	}
	return b
}

// end stops the changes.
func (b *busy) end() {
	close(b.stop)
	b.changes.Wait()
}

// missing returns a state of a kind that a log does not have; empty where it has all.
func (b *busy) missing(kind string, log []entry) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	has := map[string]bool{}
	for _, e := range log {
		has[e.rv] = true
	}
	for key, versions := range b.versions {
		if !strings.HasPrefix(key, kind+"/") {
			continue
		}
		for _, v := range versions {
			var version int
			_, err := fmt.Sscan(v, &version)
			must(b.t, err)
			if version >= b.since[kind] && !has[v] {
				return key + " at " + v
			}
		}
	}
	return ""
}

// expectOrder checks that a log has no state twice, and no older one behind a newer one of the same object.
func expectOrder(t *testing.T, log []entry) {
	t.Helper()
	last, ids := map[string]int{}, map[string]bool{}
	for _, e := range log {
		if e.op == "gap" {
			t.Errorf("the log has a gap: %s", e.data)
		}
		if e.uid == "" {
			continue
		}
		var at int
		_, err := fmt.Sscan(e.rv, &at)
		must(t, err)
		key := e.kind + "/" + e.key
		if ids[e.id] || at < last[key] || at == last[key] && e.op != "deleted" {
			t.Errorf("%s %s %s stands behind version %d, or again", e.op, key, e.id, last[key])
		}
		last[key], ids[e.id] = at, true
	}
}

func TestReload_leaves_alone_what_does_not_change(t *testing.T) {
	r := newReloaded(t)
	const both, one = "[{resource: configmaps, namespaces: [busy]}, {resource: secrets, namespaces: [busy]}]", "[{resource: configmaps, namespaces: [busy]}]"
	file := r.head + r.pipeline("a", "KUBERNETES", one)
	r.mount.write(t, file)
	r.run()
	r.awaitStatus(200, "ok")
	b := r.keepBusy()
	watches := r.watched()

	r.load("applied", r.head+r.pipeline("a", "KUBERNETES", both)) // a resource more
	r.awaitStatus(200, "ok")
	r.load("applied", r.head+r.pipeline("a", "KUBERNETES", both)+r.pipeline("b", "B", "[{resource: namespaces}]")) // a pipeline more
	r.awaitStatus(200, "ok")
	r.poll("the namespaces of the other pipeline", func() (bool, string) { return r.seen("B", "namespaces") > 0, "there are none" })
	b.all("Secret") // what was before has the snapshot in its last state
	r.poll("another Secret", func() (bool, string) { return r.seen("KUBERNETES", "secrets") > 30, "there is none" })

	r.load("applied", r.head+r.pipeline("a", "KUBERNETES", one)+r.pipeline("b", "B", "[{resource: namespaces}]")) // a resource less
	stopped := r.seen("KUBERNETES", "secrets")
	must(t, r.kube.CoreV1().Secrets("busy").Delete(t.Context(), "s0", metav1.DeleteOptions{}))
	configMaps := r.seen("KUBERNETES", "configmaps")
	r.poll("ConfigMaps that change", func() (bool, string) {
		return r.seen("KUBERNETES", "configmaps") > configMaps+50, "there are not enough"
	})
	if now := r.seen("KUBERNETES", "secrets"); now != stopped {
		t.Errorf("%d events of Secrets are in the log, and were %d when they were left out", now, stopped)
	}
	for line := range strings.Lines(r.metrics()) {
		if strings.HasPrefix(line, "kube_eventbridge_watch_restarts_total{") && strings.Contains(line, `stream="configmaps.v1/busy"`) {
			t.Errorf("the watch of ConfigMaps was broken off: %s", line)
		}
	}
	if now := r.watched(); now != watches {
		t.Errorf("the API server has ended %d watches of ConfigMaps, and had %d", now, watches)
	}

	r.load("applied", r.head+r.pipeline("a", "KUBERNETES", both)) // back, and the pipeline gone
	b.end()
	r.awaitAll(b, 1, "ConfigMap", "Secret")
	r.bridge.stop()
}

// seen counts the events of a resource that a stream of the broker has.
func (r *reloaded) seen(name, resource string) (n int) {
	r.t.Helper()
	stream, err := r.js.Stream(r.t.Context(), name)
	if err != nil {
		return 0
	}
	info, err := stream.Info(r.t.Context(), jetstream.WithSubjectFilter(">"))
	must(r.t, err)
	for subject, count := range info.State.Subjects {
		if strings.Contains(subject, ".core."+resource+".") && !strings.HasSuffix(subject, "._snapshot") && !strings.HasSuffix(subject, "._gap") {
			n += int(count)
		}
	}
	return n
}

// awaitAll waits until the log has all of some kinds, and so many deletions.
func (r *reloaded) awaitAll(b *busy, deletions int, kinds ...string) {
	r.t.Helper()
	var log []entry
	r.poll("all that was changed", func() (bool, string) {
		<-time.After(time.Second) // reading takes a consumer each time
		log = r.entries()
		lacks := ""
		for _, kind := range kinds {
			lacks += b.missing(kind, log)
		}
		return lacks == "" && count(log, "deleted") == deletions, fmt.Sprintf("%d deletions are there, and not %s", count(log, "deleted"), lacks)
	})
	expectOrder(r.t, log)
}

func TestReload_changes_nothing_where_the_file_is_wrong_and_says_why(t *testing.T) {
	r := newReloaded(t)
	good := r.head + r.pipeline("a", "KUBERNETES", "[{resource: configmaps, namespaces: [busy]}]")
	r.mount.write(t, good)
	r.run()
	r.awaitStatus(200, "ok")
	b := r.keepBusy()
	for _, c := range []struct{ text, want string }{
		{strings.Replace(good, "resources:", "resource:", 1), "bridge.yaml:7:5: pipelines[0].resource: is not a key here"},
		{strings.Replace(good, "cluster: e2e", "cluster: other", 1), "bridge.yaml:1:10: cluster: cannot change while the process runs; restart the process"},
		{strings.Replace(good, "server: {listen: ", "server: {listen: \":1\"} # ", 1), "server.listen: cannot change"},
		{strings.Replace(good, "pipelines:", "leaderElection: {}\npipelines:", 1), "leaderElection"},
		{strings.Replace(good, "configmaps", "nodes", 1), "bridge.yaml:7:35: pipelines[0].resources[0].namespaces: resource nodes is cluster-scoped"},
		{strings.Replace(good, "[{resource: configmaps, namespaces: [busy]}]", "[{resource: secrets}, {resource: secret}]", 1), "resources[1].resource: secret and secrets before it are one resource"},
		{strings.Replace(good, "nats: {", "nats: {tokenFile: nothing, ", 1), "nothing: no such file or directory"},
		{good[:len(good)/2], "bridge.yaml:"},
	} {
		before := r.seen("KUBERNETES", "configmaps")
		r.load("refused", c.text)
		r.awaitStatus(200, "ok\nconfiguration refused")
		if !strings.Contains(r.bridge.stderr(), strings.ReplaceAll(c.want, `"`, `\"`)) {
			t.Errorf("it does not log %q", c.want)
		}
		if !strings.Contains(r.metrics(), "kube_eventbridge_config_last_reload_successful 0\n") {
			t.Error("the metric does not tell")
		}
		r.poll("ConfigMaps that change", func() (bool, string) { return r.seen("KUBERNETES", "configmaps") > before+5, "there are not enough" })
	}
	if n := r.count("applied"); n != 0 {
		t.Errorf("%d were applied", n)
	}
	r.load("unchanged", good)
	if _, page := r.status("/readyz"); page != "ok\n" {
		t.Errorf("readyz still says %q", page)
	}
	if !strings.Contains(r.metrics(), "kube_eventbridge_config_last_reload_successful 1\n") {
		t.Error("the metric still tells of a refusal")
	}
	before := r.count("unchanged")
	r.bridge.signal(syscall.SIGHUP)
	r.poll("an answer to the signal", func() (bool, string) { return r.count("unchanged") > before, "there is none" })
	b.end()
	r.awaitAll(b, 0, "ConfigMap")
	r.bridge.stop()
}

// A sink that changes drains the one pipeline, and starts another; the others go on.
func TestReload_moves_a_pipeline_to_another_sink(t *testing.T) {
	r := newReloaded(t)
	of := func(stream string) string {
		return r.head + r.pipeline("a", "KUBERNETES", "[{resource: configmaps, namespaces: [busy]}]") + r.pipeline("b", stream, "[{resource: secrets, namespaces: [busy]}]")
	}
	r.mount.write(t, of("B"))
	r.run()
	r.awaitStatus(200, "ok")
	b := r.keepBusy()
	watches := r.watched()
	r.poll("Secrets", func() (bool, string) { return r.seen("B", "secrets") > 20, "there are not enough" })
	r.load("applied", of("C"))
	r.awaitStatus(200, "ok")
	if now := r.watched(); now != watches {
		t.Errorf("the API server has ended %d watches of ConfigMaps, and had %d", now, watches)
	}
	r.poll("Secrets in the other stream", func() (bool, string) { return r.seen("C", "secrets") > 20, "there are not enough" })
	b.end()
	r.awaitAll(b, 0, "ConfigMap")
	r.bridge.stop()
}

// Whenever it is killed, also in the midst of going by another file, nothing is lost, repeated or misordered.
func TestReload_killed_in_the_midst_loses_repeats_and_misorders_nothing(t *testing.T) {
	r := newReloaded(t)
	files := []string{
		"[{resource: configmaps, namespaces: [busy]}, {resource: secrets, namespaces: [busy]}]",
		"[{resource: configmaps, namespaces: [busy]}]",
		"[{resource: secrets, namespaces: [busy]}]",
		"[{resource: configmaps, namespaces: [busy], payload: metadata}, {resource: secrets, namespaces: [busy]}]",
		`[{resource: "*", namespaces: [busy], exclude: [events, events.events.k8s.io]}, {resource: configmaps, namespaces: [busy]}]`,
	}
	text := func(i int) string { return r.head + r.pipeline("a", "KUBERNETES", files[i]) }
	r.mount.write(t, text(0))
	bridge := r.run()
	r.awaitStatus(200, "ok")
	b := r.keepBusy()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // nothing is to be kept secret
	for round := range 25 {
		r.mount.write(t, text(random.IntN(len(files))))
		bridge.signal(syscall.SIGHUP)
		<-time.After(time.Duration(random.IntN(1500)) * time.Millisecond)
		if round%3 == 0 {
			bridge.kill()
			bridge = r.run()
			r.awaitStatus(200, "")
		}
	}
	r.mount.write(t, text(0))
	bridge.signal(syscall.SIGHUP)
	b.end()
	r.awaitAll(b, 0, "ConfigMap", "Secret")
	bridge.stop()
}

// Replicas go by the new file, whether they lead or stand by, and whoever takes over goes on by it.
func TestReload_with_replicas_is_of_who_leads_and_of_who_stands_by(t *testing.T) {
	r := newRig(t, "[{resource: configmaps, namespaces: [busy]}]")
	text, err := os.ReadFile(r.config)
	must(t, err)
	bucket := fmt.Sprintf("name: test\n    checkpoint: {nats: {servers: [%q]}}", r.broker.url())
	must(t, os.WriteFile(r.config, []byte(strings.Replace(string(text), "name: test", bucket, 1)), 0o600))
	r.elect()
	all := r.replicas(2)
	first := leader(t, all, nil)
	second := all[0]
	if second == first {
		second = all[1]
	}
	q := &reloaded{rig: r}
	b := q.keepBusy()
	const one, both = "[{resource: configmaps, namespaces: [busy]}]", "[{resource: configmaps, namespaces: [busy]}, {resource: secrets, namespaces: [busy]}]"
	for _, p := range all {
		file := p.cmd.Args[len(p.cmd.Args)-1]
		replaced(t, file, file, one, both)
		p.signal(syscall.SIGHUP)
		r.poll("the configuration to be applied", func() (bool, string) { return strings.Contains(p.stderr(), "configuration applied"), p.stderr() })
	}
	r.poll("Secrets", func() (bool, string) { return q.seen("KUBERNETES", "secrets") > 10, "there are none" })
	r.bridge = second.bridge
	first.kill()
	leader(t, []*replica{second}, nil)
	before := q.seen("KUBERNETES", "secrets")
	r.poll("Secrets of who took over", func() (bool, string) { return q.seen("KUBERNETES", "secrets") > before+10, "there are none" })
	b.end()
	q.awaitAll(b, 0, "ConfigMap")
}
